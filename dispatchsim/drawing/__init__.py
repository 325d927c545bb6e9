"""Parts of pictures, and the words of figures."""

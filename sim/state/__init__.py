"""The state of a run: records that laws read and write, and what they are made of."""

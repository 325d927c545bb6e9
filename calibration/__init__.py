"""Where the nanoseconds come from: real C servers, their measurements and the fitted costs."""

"""The events of one run: recordings, the timeline, traces, the step-through."""

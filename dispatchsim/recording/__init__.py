"""What a run did, one by one: recordings, the timeline, traces, the step-through."""

//! Summaries of runs, from their event logs.

//! Workloads, sessions, experiments, metrics, scoreboard and report.

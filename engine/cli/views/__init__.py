"""The commands' views: runs, races and replays as they happen; reports, backtests and audits as tables and pages."""

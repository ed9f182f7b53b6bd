"""Analysis of records: reports and backtests over many sessions, and the audit of a single one."""

"""Analysis of records: reports and backtests over many sessions, the audit of a single one."""

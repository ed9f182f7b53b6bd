"""Alerts and dashboard for operators: every metric that they name exists, and Prometheus can read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from endstop.base.metrics_registry import Metric

from . import scripts

OPERATIONS = scripts.DOCS / "operations"
RUNBOOK = scripts.DOCS / "guides" / "operations.md"
ALERTS, DASHBOARD = OPERATIONS / "alerts.yml", OPERATIONS / "dashboard.json"
ELSEWHERE = {
    "endstop_archive_failures_total", "endstop_sessions_archived_total",
    "endstop_estimated_tokens_total", "endstop_proxy_budgets_open", "endstop_proxy_cost_usd_total",
    "endstop_proxy_dry_run_stops_total", "endstop_proxy_estimated_tokens_total", "endstop_proxy_failed_requests_total",
    "endstop_proxy_known_runs", "endstop_proxy_requests_in_progress",
}  # fmt: skip
"""Metrics that only the page of metrics has."""
QUIET, SECONDS = 300, 30
"""Seconds without an incident, and seconds after its begin at which its alert fires, with a scrape each 5 seconds."""
SIGNS: dict[str, dict[str, tuple[str, str]]] = {
    "EndstopDatabaseDown": {"endstop_store_reachable": ("1+0x60", "0+0x20")},
    "EndstopDatabaseSlow": {
        'endstop_http_response_seconds_bucket{route="/sessions", le="1.0"}': ("0+10x60", "600+0x20"),
        'endstop_http_response_seconds_bucket{route="/sessions", le="2.5"}': ("0+10x60", "610+10x20"),
        'endstop_http_response_seconds_bucket{route="/sessions", le="+Inf"}': ("0+10x60", "610+10x20"),
    },
    "EndstopWritesFail": {
        "endstop_store_reachable": ("1+0x60", "1+0x20"),
        "endstop_failed_writes_total": ("0+0x60", "1+5x20"),
    },
    "EndstopRecordsFail": {
        "endstop_proxy_unrecorded_runs_total": ("0+0x60", "1+1x20"),
        "endstop_proxy_budgets_open": ("0+0x60", "0+0x20"),
    },
    "EndstopProviderDown": {
        'endstop_provider_attempts_total{result="ok"}': ("0+10x60", "600+0x20"),
        'endstop_provider_attempts_total{result="unavailable"}': ("0+0x60", "40+40x20"),
    },
    "EndstopProviderDownBehindProxy": {
        'endstop_proxy_provider_replies_total{status="200"}': ("0+10x60", "600+0x20"),
        'endstop_proxy_provider_replies_total{status="none"}': ("0+0x60", "40+40x20"),
    },
    "EndstopOwnerFloods": {
        'endstop_sessions{status="queued"}': ("2+0x60", "240-1x20"),
    },
    "EndstopProcessEvicted": {
        "endstop_processes_evicted_total": ("0+0x60", "0 0 0 1+0x20"),
        "endstop_leases_lost_total": ("0+0x60", "0+0x20"),
    },
    "EndstopProcessDown": {'up{job="endstop"}': ("1+0x60", "0+0x20")},
}
"""Of the incidents that an operator must see: the series before and after the begin, as promtool writes them."""
_NAME = re.compile(r"\bendstop_\w+")
_SELECTED = re.compile(r"\b(endstop_\w+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)(?:=|!=|=~|!~)\"")
_BY = re.compile(r"by \(([^)]*)\) \((?:rate|increase)?\(?(endstop_\w+)")


def _table() -> dict[str, Metric]:
    """Every name that a query may have, with its metric."""
    found = {}
    for group in scripts.load(scripts.DOCS / "tables.py").METRICS.values():
        for metric in group:
            assert metric.name not in found, metric.name
            endings = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
            found |= {f"{metric.name}{ending}": metric for ending in endings}
    return found


def _rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def _queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_every_metric_and_label_that_alerts_and_dashboard_name_exists() -> None:
    table = _table()
    for query in [*(rule["expr"] for rule in _rules()), *_queries()]:
        names = _NAME.findall(query)
        assert names or query == 'up{job="endstop"} == 0', query
        assert [name for name in names if name not in table] == [], query
        for name, selected in _SELECTED.findall(query):
            assert set(_LABEL.findall(selected)) <= {*table[name].labels, "job"}, query
        for labels, name in _BY.findall(query):
            assert {label.strip() for label in labels.split(",")} <= {*table[name].labels, "le"}, query


def test_every_metric_is_on_the_dashboard_but_for_those_of_received_spans_and_a_few_details() -> None:
    named = {_table()[name].name for query in _queries() for name in _NAME.findall(query)}
    missing = {metric.name for metric in _table().values()} - named
    assert {name for name in missing if "_received_" not in name} == ELSEWHERE


def test_each_alert_says_what_is_wrong_and_which_part_of_the_runbook_helps() -> None:
    names = [rule["alert"] for rule in _rules()]
    assert len(names) == len(set(names))
    for rule in _rules():
        assert rule["annotations"]["summary"], rule["alert"]
        assert rule["labels"]["severity"] in ("page", "warn"), rule["alert"]


def test_each_alert_leads_to_the_part_of_the_runbook_that_names_it() -> None:
    named = {
        (name, _anchor(heading))
        for heading, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", RUNBOOK.read_text(encoding="utf-8"), re.M)
        for name in re.findall(r"`(Endstop\w+)`", text)
    }
    leads = {(rule["alert"], rule["annotations"]["runbook"].removeprefix("guides/operations.md#")) for rule in _rules()}
    assert leads <= named
    assert {name for name, _ in named} == {name for name, _ in leads}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_promtool_accepts_the_alerts_and_the_dashboards_queries(tmp_path: Path) -> None:
    _check(ALERTS)
    queries = [query.replace("$__rate_interval", "1m") for query in _queries()]
    records = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}), encoding="utf-8")
    _check(rules)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_an_incident_fires_its_alert_within_half_a_minute_and_no_other_and_none_fires_before(tmp_path: Path) -> None:
    tests = []
    for alert, series in SIGNS.items():
        firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
        seen = [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
        tests.append(
            {
                "interval": "5s",
                "input_series": [
                    {"series": name, "values": f"{before} {after}"} for name, (before, after) in series.items()
                ],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": f"{QUIET}s", "exp_samples": []},
                    {"expr": firing, "eval_time": f"{QUIET + SECONDS}s", "exp_samples": seen},
                ],
            }
        )
    rules = tmp_path / "tests.yml"
    content = {"rule_files": [str(ALERTS)], "evaluation_interval": "5s", "tests": tests}
    rules.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", str(rules)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _check(rules: Path) -> None:
    done = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr

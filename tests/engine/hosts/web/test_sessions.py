"""Sessions over HTTP: start, read, list, go on, answer, steer, cancel, resume, forget."""

from __future__ import annotations

from .site import site


async def test_a_session_is_started_and_read_with_its_runs_and_outcome() -> None:
    async with site() as at:
        response = await at.client.post("/sessions", json={"prompt": "Set the port"})
        session = response.json()
        assert response.status_code == 201
        assert response.headers["location"] == f"sessions/{session['id']}"
        assert session["status"] in ("running", "completed")
        outcome = await at.outcome(session["run_id"])
        assert (outcome["status"], outcome["answer"]) == ("completed", "The port is set.")
        read = (await at.client.get(f"/sessions/{session['id']}")).json()
        assert (read["status"], read["title"], read["can_resume"]) == ("completed", "Set the port", False)
        (run,) = read["runs"]
        assert (run["id"], run["number"], run["prompt"]) == (session["run_id"], 1, "Set the port")
        assert (await at.client.get(f"/runs/{run['id']}")).json() == run
        assert run["outcome"] == outcome

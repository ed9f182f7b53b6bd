"""Proxy in front of an agent's provider that cuts, stops, records and explains, without a change to the agent."""

from .proxy import Proxy, ProxyOptions

__all__ = ["Proxy", "ProxyOptions"]

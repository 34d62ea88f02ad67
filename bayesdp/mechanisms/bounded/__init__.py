"""Mechanisms for statistics within public bounds."""

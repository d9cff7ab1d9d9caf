"""Fits of engines and operators to measurements, and the error of a fit."""

"""A live server beside its prediction: when it leaves its interval, and why.

pages            looks at a metrics page: a recording of them, and what lies between two
expected         the prediction under the conditions that a window had
causes           what of a change comes from load, lengths, cache hits, preemptions and steps
watch            windows of looks, what they teach, and what is said of them
follow           the looks at a live page, and at a log of requests
answer           a watch of recordings, from its first look to its last
live             a watch of a live page: recorded, told and exported at each look
kept             the calibration that a watch keeps current
exporter         its own gauges for Prometheus
grafana          a dashboard of these gauges
"""

# The dashboard in a container, for others than the one who runs it (docs/operations.md):
#   docker build -t ridgeline . && docker run --rm -p 8501:8501 -v ridgeline:/home/ridgeline/data ridgeline
# EXTRAS are those of pyproject.toml, apart by commas: --build-arg EXTRAS=dashboard,auth,api,hub
ARG PYTHON=3.12-slim-bookworm

FROM python:${PYTHON} AS build
ARG EXTRAS=dashboard,auth
WORKDIR /src
RUN python -m venv /opt/ridgeline
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY app app
COPY genz_core genz_core
COPY hardware_db hardware_db
COPY model_registry model_registry
COPY profilers profilers
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/ridgeline/bin/pip install -c constraints.txt ".[${EXTRAS}]"

FROM python:${PYTHON}
RUN useradd --create-home --uid 10001 ridgeline
COPY --from=build /opt/ridgeline /opt/ridgeline
ENV PATH="/opt/ridgeline/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    RIDGELINE_DATA=/home/ridgeline/data
USER 10001
WORKDIR /home/ridgeline
RUN mkdir data
# What users keep: calibrations, runs, jobs, visitors.
VOLUME /home/ridgeline/data
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["ridgeline", "app", "--shared", "--host", "0.0.0.0", "--port", "8501", "--no-browser"]

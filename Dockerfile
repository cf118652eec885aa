# Two stages: the first puts the packages into a virtual environment, the second has that and the app, and no pip.
# The tag names one Python patch release; where a registry can be seen, pin its digest as well.
ARG PYTHON=python:3.12.12-slim-bookworm

FROM ${PYTHON} AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/venv
COPY requirements.lock /tmp/
RUN python -m pip --python /opt/venv/bin/python install --only-binary=:all: --require-hashes -r /tmp/requirements.lock

FROM ${PYTHON}
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY --from=packages /opt/venv /opt/venv
COPY . .
# a number, so that Kubernetes can see that it is not root; the code belongs to root and is only read
USER 10001:10001
EXPOSE 8501
# Python listens to this signal from its first moment, to SIGTERM only once the server is up
STOPSIGNAL SIGINT
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-I", "-c", "\
import http.client; c = http.client.HTTPConnection('127.0.0.1', 8501, timeout=9); \
c.request('GET', '/_stcore/health'); raise SystemExit(c.getresponse().status != 200)"]
# the websocket settings are those that `streamlit run` gives to uvicorn; tests/test_container.py compares them
ENTRYPOINT ["uvicorn", "app:app", "--host", "0.0.0.0", "--port", "8501", "--no-access-log", "--no-use-colors", \
    "--ws", "websockets-sansio", "--ws-max-size", "2000000", "--ws-per-message-deflate", "false", \
    "--ws-ping-interval", "30", "--ws-ping-timeout", "30", "--timeout-graceful-shutdown", "3"]

#!/bin/sh
# What the image runs: `executor` and `driver` are said by Spark on Kubernetes to the pods that it makes, all else is for
# sparkmirror. The variables are those that Spark 4.3 gives an executor's pod.
set -eu
if [ "${1:-}" = driver ]; then
  # driver --properties-file … --class org.apache.spark.deploy.PythonRunner local:///opt/sparkmirror/driver.py FILE …
  # Spark's own image starts the JVM here, which starts Python. In this one Python starts the JVM, as everywhere else: so
  # SIGTERM reaches the mirror, which stops in order, and its exit status is the pod's. The settings are in a file.
  shift
  while [ "${1#--}" != "$1" ]; do
    shift 2
  done
  main=${1#local://}
  shift
  exec python3 "$main" "$@"
fi
if [ "${1:-}" != executor ]; then
  exec sparkmirror "$@"
fi
SPARK_HOME=$(python3 -c 'import pyspark; print(pyspark.__path__[0])')
export SPARK_HOME
# JVM options come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ..., and one of them may hold spaces.
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
  set -- "$@" "$option"
  number=$((number + 1))
done
exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"

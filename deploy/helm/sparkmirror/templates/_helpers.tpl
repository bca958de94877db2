{{/* The name of everything that the release makes. */}}
{{- define "sparkmirror.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sparkmirror.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "sparkmirror.labels" -}}
app.kubernetes.io/name: {{ include "sparkmirror.name" . }}
{{- end -}}

{{- define "sparkmirror.executorLabels" -}}
app.kubernetes.io/name: {{ include "sparkmirror.name" . }}-executor
{{- end -}}

{{- define "sparkmirror.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "sparkmirror.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* DNS and the brokers: what every pod may reach. */}}
{{- define "sparkmirror.egress" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
- ports:
    - {protocol: TCP, port: {{ .Values.networkPolicy.brokerPorts.first }}, endPort: {{ .Values.networkPolicy.brokerPorts.last }}}
{{- end -}}

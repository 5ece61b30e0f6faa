{{/* Of every object. */}}
{{- define "gpu-sharing.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Of pods: those that stay the same while the version does, so that a new chart alone restarts nothing. */}}
{{- define "gpu-sharing.podLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end }}

{{/* What the operator has written into a variable of a guard, so that an upgrade neither empties nor contests it. */}}
{{- define "gpu-sharing.written" -}}
{{- $guard := index . 0 }}
{{- $name := index . 1 }}
{{- $expression := index . 2 }}
{{- $found := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" $guard }}
{{- range dig "spec" "variables" list $found }}
{{- if eq .name $name }}
{{- $expression = .expression }}
{{- end }}
{{- end }}
{{- toJson $expression }}
{{- end }}

{{- define "gpu-sharing.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end }}

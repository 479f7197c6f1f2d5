{{/* Labels that select the pods of a component. Takes: root, component. */}}
{{- define "odfabric.labels" -}}
app.kubernetes.io/name: odfabric
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Name and labels of an object. Takes: root, component. */}}
{{- define "odfabric.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
labels:
  {{- include "odfabric.labels" . | nindent 2 }}
{{- end }}

{{/* Autoscaler and disruption budget of a Deployment. Takes: root, component, values (of the component). */}}
{{- define "odfabric.scaling" }}
{{- if .values.autoscaling.enabled }}
{{- with .values.autoscaling }}
{{- if gt (int .replicasMin) (int .replicasMax) }}
{{- fail (printf "%s: autoscaling.replicasMin (%d) is above autoscaling.replicasMax (%d)" $.component (int .replicasMin) (int .replicasMax)) }}
{{- end }}
{{- end }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "odfabric.metadata" . | nindent 2 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: "{{ .root.Release.Name }}-{{ .component }}" }
  minReplicas: {{ .values.autoscaling.replicasMin }}
  maxReplicas: {{ .values.autoscaling.replicasMax }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ .values.autoscaling.cpuPercent }} }
{{- end }}
{{- include "odfabric.budget" . }}
{{- end }}

{{/* Takes: root, component. */}}
{{- define "odfabric.budget" }}
{{- if .root.Values.disruptionBudgets.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "odfabric.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .root.Values.disruptionBudgets.unavailableMax }}
  selector:
    matchLabels:
      {{- include "odfabric.labels" . | nindent 6 }}
{{- end }}
{{- end }}

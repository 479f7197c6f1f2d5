{{/* What every pod has: no key of Kubernetes, no root, no rights beyond. Takes: whether it mounts the workspace. */}}
{{- define "odfabric.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  {{- if . }}
  # Only when the volume is new: it would give the group a right to the key file, which the node then refuses.
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "odfabric.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/* Five minutes to start; ended when the port stays closed for two. Takes: name of the port. */}}
{{- define "odfabric.portProbes" -}}
startupProbe:
  tcpSocket: { port: {{ . }} }
  periodSeconds: 5
  failureThreshold: 60
readinessProbe:
  tcpSocket: { port: {{ . }} }
  periodSeconds: 10
livenessProbe:
  tcpSocket: { port: {{ . }} }
  periodSeconds: 20
  failureThreshold: 6
{{- end }}

{{/* Environment of api, worker and prepare. Takes: the root. */}}
{{- define "odfabric.nodeEnvironment" -}}
- { name: ODF_WORKSPACE, value: /workspace }
- { name: ODF_ENGINE_ADDRESS, value: "{{ .Release.Name }}-engine:5544" }
- name: ODF_TOKEN
  valueFrom: { secretKeyRef: { name: "{{ .Values.secrets.node }}", key: token } }
- name: ODF_DATABASE_URL
  valueFrom: { secretKeyRef: { name: "{{ .Values.secrets.node }}", key: database-url } }
- name: ODF_REDIS_URL
  valueFrom: { secretKeyRef: { name: "{{ .Values.secrets.node }}", key: redis-url } }
- name: ODF_S3_ACCESS_KEY
  valueFrom: { secretKeyRef: { name: "{{ .Values.secrets.node }}", key: s3-access-key } }
- name: ODF_S3_SECRET_KEY
  valueFrom: { secretKeyRef: { name: "{{ .Values.secrets.node }}", key: s3-secret-key } }
- name: ODF_ENGINE_TOKEN
  valueFrom: { secretKeyRef: { name: "{{ .Values.secrets.engine }}", key: token } }
{{- end }}

{{- define "odfabric.nodeMounts" -}}
- { name: workspace, mountPath: /workspace }
- { name: exchange, mountPath: /workspace/exchange }
- { name: tmp, mountPath: /tmp }
{{- end }}

{{/* Takes: the root. */}}
{{- define "odfabric.nodeVolumes" -}}
- name: workspace
  persistentVolumeClaim: { claimName: "{{ .Release.Name }}-workspace" }
- name: exchange
  persistentVolumeClaim: { claimName: "{{ .Release.Name }}-exchange" }
- name: tmp
  emptyDir: { sizeLimit: 2Gi }
{{- end }}

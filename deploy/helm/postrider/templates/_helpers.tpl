{{- define "postrider.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "postrider.fullname" -}}
{{- $name := include "postrider.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select pods of this release. */}}
{{- define "postrider.selector" -}}
app.kubernetes.io/name: {{ include "postrider.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "postrider.labels" -}}
{{ include "postrider.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The name of the Deployment of one entry of roles; takes a list of the root and the entry. */}}
{{- define "postrider.groupName" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{- include "postrider.fullname" $root }}{{ with $group.name }}-{{ . }}{{ end -}}
{{- end -}}

{{/* The labels that select the pods of one entry of roles. */}}
{{- define "postrider.groupSelector" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{ include "postrider.selector" $root }}
app.kubernetes.io/component: {{ default "node" $group.name }}
{{- end -}}

{{/* Returns the resources of the pods of an entry of roles: its own, and for the others those of all pods. */}}
{{- define "postrider.resources" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{- $all := deepCopy (default dict $root.Values.resources) -}}
{{- with merge (deepCopy (default dict $group.resources)) $all }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "postrider.image" -}}
{{- $repository := required "Set image.repository to your image, for example registry.example.com/postrider." .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "postrider.baseUrl" -}}
{{- required "Set baseUrl to the public URL, for example https://mail.example.com." .Values.baseUrl -}}
{{- end -}}

{{- define "postrider.host" -}}
{{- (urlParse (include "postrider.baseUrl" .)).hostname -}}
{{- end -}}

{{/* The Secret whose keys become environment variables. */}}
{{- define "postrider.secret" -}}
{{- if .Values.externalSecret.enabled -}}
{{- default (include "postrider.fullname" .) .Values.existingSecret -}}
{{- else -}}
{{- required "Set existingSecret to a Secret with POSTRIDER_SECRET_KEY and POSTRIDER_DATABASE_URL, or set externalSecret.enabled." .Values.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* All settings that are not secret, as a map. */}}
{{- define "postrider.settings" -}}
POSTRIDER_BASE_URL: {{ include "postrider.baseUrl" . | quote }}
POSTRIDER_SMTP_HOSTNAME: {{ default (include "postrider.host" .) .Values.hostname | quote }}
POSTRIDER_DATA_DIR: /data
POSTRIDER_HTTP_PORT: "3000"
{{- if .Values.content.existingClaim }}
POSTRIDER_BLOB_URL: file:///content
{{- else }}
POSTRIDER_BLOB_URL: {{ required "Set content.url to an S3-compatible store (s3://…), or content.existingClaim to a volume claim." .Values.content.url | quote }}
{{- end }}
POSTRIDER_SMTP_PORT: "2587"
{{- if .Values.submission.implicitTls }}
POSTRIDER_SMTPS_PORT: "2465"
{{- end }}
{{- if .Values.inbound.enabled }}
POSTRIDER_INBOUND_PORT: "2525"
{{- end }}
{{- if .Values.tls.existingSecret }}
POSTRIDER_SMTP_TLS_CERT: /tls/tls.crt
POSTRIDER_SMTP_TLS_KEY: /tls/tls.key
{{- end }}
{{- with .Values.trustedProxies }}
POSTRIDER_TRUSTED_PROXIES: {{ join "," . | quote }}
{{- end }}
{{- with .Values.settings }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Variables from other Secrets. They override those of the Secret above. */}}
{{- define "postrider.secretVariables" -}}
{{- with .Values.database.secret }}
{{- if .name -}}
- name: POSTRIDER_DATABASE_URL
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{ end }}
{{- end }}
{{- with .Values.content.secret }}
{{- if .name -}}
- name: AWS_ACCESS_KEY_ID
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .accessKeyId }} } }
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .secretAccessKey }} } }
{{- end }}
{{- end }}
{{- end -}}

{{/* Fields of the pods of the Deployments and of the migration. */}}
{{- define "postrider.podFields" -}}
# For a Service named postrider, Kubernetes would set variables with the prefix of the settings (POSTRIDER_).
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:{{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:{{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:{{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:{{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.runAsUser }}
  runAsGroup: {{ .Values.runAsUser }}
  fsGroup: {{ .Values.runAsUser }}
  # Without this, each start changes the group of every file in a content volume.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "postrider.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "postrider.volumes" -}}
# Only generated keys; messages are in the database and in the store.
- { name: data, emptyDir: {} }
- { name: tmp, emptyDir: {} }
{{- with .Values.content.existingClaim }}
- name: content
  persistentVolumeClaim: { claimName: {{ . }} }
{{- end }}
{{- with .Values.tls.existingSecret }}
- name: smtp-tls
  secret: { secretName: {{ . }}, defaultMode: 288 } # 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "postrider.volumeMounts" -}}
- { name: data, mountPath: /data }
- { name: tmp, mountPath: /tmp }
{{- if .Values.content.existingClaim }}
- { name: content, mountPath: /content }
{{- end }}
{{- if .Values.tls.existingSecret }}
- { name: smtp-tls, mountPath: /tls, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Stops with a message if values contradict each other. */}}
{{- define "postrider.check" -}}
{{- $names := list -}}
{{- $runs := list -}}
{{- $root := . -}}
{{- range .Values.roles -}}
{{- $names = append $names (default "" .name) -}}
{{- $runs = concat $runs .roles -}}
{{- $resources := include "postrider.resources" (list $root .) | fromYaml -}}
{{- if and (dig "cpuPercent" 0 (default dict .autoscaling)) (not (or (dig "requests" "cpu" "" $resources) (dig "limits" "cpu" "" $resources))) -}}
{{- fail "autoscaling.cpuPercent is a share of resources.requests.cpu. Set it." -}}
{{- end -}}
{{- with .autoscaling -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail "autoscaling.minReplicas must not be greater than maxReplicas." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if ne (len $names) (len (uniq $names)) -}}
{{- fail "Each entry of roles must have its own name." -}}
{{- end -}}
{{- range list "api" "delivery" "webhooks" -}}
{{- if not (has . $runs) -}}
{{- fail (printf "No entry of roles runs %s. Add it to one." .) -}}
{{- end -}}
{{- end -}}
{{- if ne .Values.submission.enabled (has "smtp" $runs) -}}
{{- fail "submission.enabled needs an entry of roles that runs smtp, and the other way round." -}}
{{- end -}}
{{- if ne .Values.inbound.enabled (has "inbound" $runs) -}}
{{- fail "inbound.enabled needs an entry of roles that runs inbound, and the other way round." -}}
{{- end -}}
{{- if and (or .Values.submission.proxyProtocol .Values.inbound.proxyProtocol) (not .Values.trustedProxies) -}}
{{- fail "proxyProtocol needs the addresses of your load balancer in trustedProxies." -}}
{{- end -}}
{{- if and .Values.content.url .Values.content.existingClaim -}}
{{- fail "Set either content.url or content.existingClaim." -}}
{{- end -}}
{{- end -}}

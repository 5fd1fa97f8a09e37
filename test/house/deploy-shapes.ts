/**
 * The parts of the Compose and Kubernetes schemas that deploy/ uses, closed: a field that is missing here is a typo, or must be looked up
 * and added. Types and names are those of the Compose specification and of Kubernetes 1.34.
 */
type Shape = Record<string, unknown>;

const text = { type: 'string', minLength: 1 };
const count = { type: 'integer', minimum: 0 };
const flag = { type: 'boolean' };
const words = (...allowed: string[]): Shape => ({ enum: allowed });
const list = (items: Shape): Shape => ({ type: 'array', items, minItems: 1 });
const map = (values: Shape): Shape => ({ type: 'object', additionalProperties: values });

/** An object with exactly these members; a name that ends in ! is required. */
function closed(members: Record<string, Shape>): Shape {
  const properties = Object.fromEntries(Object.entries(members).map(([name, one]) => [name.replace('!', ''), one]));
  const required = Object.keys(members).flatMap((name) => (name.endsWith('!') ? [name.slice(0, -1)] : []));
  return { type: 'object', properties, required, additionalProperties: false };
}

const duration = { type: 'string', pattern: '^\\d+(ms|s|m|h)$' };
const condition = words('service_started', 'service_healthy', 'service_completed_successfully');

const ipv4 = { type: 'string', pattern: '^\\d+(\\.\\d+){3}$' };
const network = { type: 'string', pattern: '^\\d+(\\.\\d+){3}/\\d+$' };

export const composeShape = closed({
  name: { type: 'string', pattern: '^[a-z0-9][a-z0-9_-]*$' },
  'x-node': { type: 'object' },
  'services!': map(
    closed({
      build: closed({ 'context!': text, dockerfile: text }),
      'image!': text,
      restart: words('no', 'always', 'on-failure', 'unless-stopped'),
      stop_grace_period: duration,
      env_file: list(text),
      environment: map({ type: 'string' }),
      depends_on: { anyOf: [list(text), map(closed({ 'condition!': condition }))] },
      ports: list({ type: 'string', pattern: '^(\\d+:)?\\d+$' }),
      volumes: list({ type: 'string', pattern: '^[\\w./-]+:/[\\w./-]+(:ro)?$' }),
      networks: map(closed({ ipv4_address: ipv4 })),
      healthcheck: closed({ 'test!': list(text), interval: duration, timeout: duration, retries: count }),
    }),
  ),
  networks: map(closed({ ipam: closed({ config: list(closed({ subnet: network })) }) })),
  volumes: map({ anyOf: [{ type: 'null' }, closed({})] }),
});

const metadata = closed({ 'name!': { type: 'string', pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$' }, labels: map(text) });
const selector = closed({ 'matchLabels!': map(text) });
const portNumber = { type: 'integer', minimum: 1, maximum: 65_535 };
const namedPort = { anyOf: [portNumber, { type: 'string', pattern: '^[a-z0-9-]{1,15}$' }] };
const probe = closed({
  'httpGet!': closed({ 'path!': text, 'port!': namedPort }),
  periodSeconds: count,
  failureThreshold: count,
});
const quantity = { type: 'string', pattern: '^\\d+(m|[KMG]i?)?$' };
const resources = map(closed({ cpu: quantity, memory: quantity }));

const container = closed({
  'name!': text,
  'image!': text,
  envFrom: list({
    anyOf: [
      closed({ 'configMapRef!': closed({ 'name!': text }) }),
      closed({ 'secretRef!': closed({ 'name!': text }) }),
    ],
  }),
  ports: list(closed({ name: text, 'containerPort!': portNumber })),
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
  lifecycle: closed({ preStop: closed({ sleep: closed({ 'seconds!': count }) }) }),
  resources,
  securityContext: closed({
    allowPrivilegeEscalation: flag,
    readOnlyRootFilesystem: flag,
    capabilities: closed({ drop: list(text) }),
  }),
  volumeMounts: list(closed({ 'name!': text, 'mountPath!': text, readOnly: flag })),
});

const pod = closed({
  terminationGracePeriodSeconds: count,
  enableServiceLinks: flag,
  automountServiceAccountToken: flag,
  securityContext: closed({
    runAsNonRoot: flag,
    runAsUser: count,
    runAsGroup: count,
    fsGroup: count,
    seccompProfile: closed({ 'type!': words('RuntimeDefault', 'Unconfined') }),
  }),
  'containers!': list(container),
  volumes: list(
    closed({
      'name!': text,
      emptyDir: closed({}),
      secret: closed({ 'secretName!': text, defaultMode: { maximum: 511, ...count } }),
    }),
  ),
});

const resource = (apiVersion: string, kind: string, members: Record<string, Shape>): Shape =>
  closed({ 'apiVersion!': words(apiVersion), 'kind!': words(kind), 'metadata!': metadata, ...members });

export const kubernetesShape = {
  anyOf: [
    resource('v1', 'ConfigMap', { 'data!': map({ type: 'string' }) }),
    resource('apps/v1', 'Deployment', {
      'spec!': closed({
        replicas: count,
        'selector!': selector,
        strategy: closed({
          'type!': words('RollingUpdate'),
          rollingUpdate: closed({ maxUnavailable: count, maxSurge: count }),
        }),
        'template!': closed({ metadata: closed({ 'labels!': map(text) }), 'spec!': pod }),
      }),
    }),
    resource('policy/v1', 'PodDisruptionBudget', { 'spec!': closed({ minAvailable: count, 'selector!': selector }) }),
    resource('v1', 'Service', {
      'spec!': closed({
        type: words('ClusterIP', 'NodePort', 'LoadBalancer'),
        externalTrafficPolicy: words('Local', 'Cluster'),
        'selector!': map(text),
        'ports!': list(closed({ name: text, 'port!': portNumber, targetPort: namedPort })),
      }),
    }),
    resource('networking.k8s.io/v1', 'NetworkPolicy', {
      'spec!': closed({
        'podSelector!': selector,
        policyTypes: list(words('Ingress', 'Egress')),
        ingress: list(closed({ ports: list(closed({ protocol: words('TCP', 'UDP'), 'port!': namedPort })) })),
      }),
    }),
  ],
};

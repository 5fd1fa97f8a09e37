/** The Helm chart, rendered by Helm's libraries: valid for Kubernetes, with settings that the service accepts, and safe by default. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { ChartRenderer, GO_LIBRARIES, kubernetesBase, type Values } from '../../scripts/kubernetes.ts';
import { examineConfig } from '../../src/config.ts';
import { type Manifest, schemaFaults } from '../kit/kubernetes-schemas.ts';
import { missing } from '../kit/requirements.ts';
import { noTestTools } from '../kit/test-tools.ts';
import { root } from './source-tree.ts';

/** False if the renderer can be built, otherwise the reason for `{ skip }`; throws in CI. */
function noRenderer(): string | false {
  const libraries = ['github.com/Masterminds/sprig', 'github.com/xeipuuv/gojsonschema', 'sigs.k8s.io/yaml'];
  const absent = libraries.filter((name) => !existsSync(path.join(GO_LIBRARIES, 'src', name)));
  if (absent.length === 0) return missing('go');
  const reason = `the Go libraries ${absent.join(', ')} are not installed`;
  if (process.env.CI) throw new Error(`${reason}, and CI skips nothing`);
  return reason;
}

const skip = noTestTools() || noRenderer();

const needed: Values = {
  image: { repository: 'registry.example.com/postrider' },
  baseUrl: 'https://mail.example.com',
  existingSecret: 'postrider',
  content: { url: 's3://postrider/content?endpoint=https://s3.example.com&region=us-east-1' },
};

const apart = [
  { name: 'api', roles: ['api', 'smtp'], replicas: 2 },
  {
    name: 'delivery',
    roles: ['delivery', 'webhooks', 'inbound'],
    resources: { limits: { memory: '2Gi' } },
    autoscaling: { minReplicas: 2, maxReplicas: 6, cpuPercent: 70, queuedMessagesPerPod: 5_000_000 },
  },
];

const VALUES: Record<string, Values> = {
  defaults: {},
  'roles apart': { roles: apart, inbound: { enabled: true } },
  'Secrets of others': {
    database: { secret: { name: 'postrider-pg-app' } },
    content: {
      ...(needed.content as Values),
      secret: { name: 'bucket', accessKeyId: 'id', secretAccessKey: 'secret' },
    },
  },
  'role for the store': { serviceAccountName: 'postrider-s3' },
  ingress: {
    ingress: {
      enabled: true,
      className: 'nginx',
      annotations: { 'nginx.ingress.kubernetes.io/proxy-body-size': '50m' },
      tlsSecret: 'mail-tls',
    },
    tls: { existingSecret: 'smtp-tls' },
    trustedProxies: ['10.244.0.10/32', 'fd00::/64'],
  },
  autoscaling: {
    roles: [
      {
        name: '',
        roles: ['api', 'smtp', 'delivery', 'webhooks'],
        autoscaling: { minReplicas: 2, maxReplicas: 4, cpuPercent: 60 },
      },
    ],
  },
  monitoring: {
    podMonitor: { enabled: true, interval: '15s', labels: { release: 'prometheus' } },
    prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
  },
  'network policy': {
    networkPolicy: { httpFrom: [{ namespaceSelector: { matchLabels: { name: 'ingress-nginx' } } }] },
    submission: { implicitTls: true },
  },
  'external secret': {
    existingSecret: '',
    externalSecret: { enabled: true, secretStoreRef: { name: 'vault' }, key: 'mail/postrider' },
  },
  'PROXY protocol': {
    roles: [{ name: '', roles: ['api', 'smtp', 'delivery', 'webhooks', 'inbound'], replicas: 2 }],
    submission: { proxyProtocol: true, implicitTls: true, service: { annotations: { cloud: 'proxy' } } },
    inbound: { enabled: true, proxyProtocol: true, service: { loadBalancerSourceRanges: ['192.0.2.0/24'] } },
    trustedProxies: ['10.0.0.0/24'],
  },
  'everything off': {
    roles: [{ name: '', roles: ['api', 'delivery', 'webhooks'], replicas: 1 }],
    content: { existingClaim: 'content' },
    submission: { enabled: false },
    migration: { enabled: false },
    podDisruptionBudget: { enabled: false },
    networkPolicy: { enabled: false },
    resources: null,
  },
  'fields of pods': {
    image: { digest: `sha256:${'a'.repeat(64)}` },
    imagePullSecrets: [{ name: 'registry' }],
    settings: { POSTRIDER_PROVIDERS: '/providers/providers.json', POSTRIDER_MIN_FREE_BYTES: '500000000' },
    podAnnotations: { a: 'b' },
    podLabels: { team: 'mail' },
    priorityClassName: 'high',
    nodeSelector: { pool: 'mail' },
    tolerations: [{ key: 'mail', operator: 'Exists' }],
    affinity: { podAntiAffinity: {} },
    extraVolumes: [{ name: 'providers', configMap: { name: 'providers' } }],
    extraVolumeMounts: [{ name: 'providers', mountPath: '/providers' }],
  },
};

describe('the Helm chart', { skip }, () => {
  const renderer = skip ? undefined : new ChartRenderer();
  after(() => renderer?.close());

  const render = (values: Values, release = {}): Record<string, string> =>
    renderer!.render(merged(needed, values), release);
  const manifestsOf = (values: Values, release = {}): Manifest[] => {
    const { 'NOTES.txt': _, ...templates } = render(values, release);
    return Object.values(templates).flatMap(documents);
  };

  for (const [name, values] of Object.entries(VALUES)) {
    test(`with ${name}: selects its pods, and the service accepts its settings`, () => {
      const manifests = manifestsOf(values);
      checkReferences(manifests);
      for (const pod of podsOf(manifests)) {
        checkSecurity(pod);
        checkSettings(pod, manifests);
      }
    });
  }

  test('renders manifests that Kubernetes and the operators accept', async () => {
    const all = Object.values(VALUES).flatMap((values) => manifestsOf(values));
    assert.deepEqual(await schemaFaults(all), []);
    const kinds = new Set(all.map(({ kind }) => kind));
    for (const kind of ['ExternalSecret', 'HorizontalPodAutoscaler', 'Ingress', 'Job', 'NetworkPolicy']) {
      assert.ok(kinds.has(kind), kind);
    }
    for (const kind of ['PodDisruptionBudget', 'PodMonitor', 'PrometheusRule', 'Service'])
      assert.ok(kinds.has(kind), kind);
    const misspelt = structuredClone(all.filter(({ kind }) => kind === 'Deployment'));
    misspelt[0].spec.template.spec.enableServiceLink = false;
    misspelt[1].spec.replicas = 'three';
    const faults = (await schemaFaults(misspelt)).join('\n');
    assert.match(faults, /enableServiceLink/, 'control: a misspelt field is found');
    assert.match(faults, /replicas/, 'control: a wrong type is found');
  });

  test('runs roles apart, and each Service and autoscaler reaches the pods of its role', () => {
    const manifests = manifestsOf(VALUES['roles apart']!);
    const find = (kind: string, name: string): Manifest =>
      manifests.find((one) => one.kind === kind && one.metadata.name === name);
    const roles = manifests
      .filter(({ kind }) => kind === 'Deployment')
      .map(({ metadata, spec }) => [
        metadata.name,
        variablesOf(spec.template, manifests).POSTRIDER_ROLES,
        spec.replicas,
      ]);
    assert.deepEqual(roles, [
      ['postrider-api', 'api,smtp', 2],
      ['postrider-delivery', 'delivery,webhooks,inbound', undefined],
    ]);
    const podsFor = (service: string): string[] =>
      manifests
        .filter(
          ({ kind, spec }) => kind === 'Deployment' && matches(find('Service', service).spec.selector, spec.template),
        )
        .map(({ metadata }) => metadata.name);
    assert.deepEqual(podsFor('postrider'), ['postrider-api']);
    assert.deepEqual(podsFor('postrider-submission'), ['postrider-api']);
    assert.deepEqual(podsFor('postrider-inbound'), ['postrider-delivery']);
    const { metrics, scaleTargetRef } = find('HorizontalPodAutoscaler', 'postrider-delivery').spec;
    assert.equal(scaleTargetRef.name, 'postrider-delivery');
    const { resources } = find('Deployment', 'postrider-delivery').spec.template.spec.containers[0];
    assert.deepEqual(resources, { requests: { cpu: '250m', memory: '256Mi' }, limits: { memory: '2Gi' } });
    const queue = metrics.find((one: Manifest) => one.type === 'External').external;
    assert.match(
      readFileSync(path.join(root, 'docs/reference/metrics.md'), 'utf8'),
      new RegExp(`\`${queue.metric.name}\``),
    );
    assert.equal(queue.target.averageValue, '5000000', 'a large number stays a whole number');
  });

  test('takes the alerts of deploy/alerts.yaml', () => {
    const rule = manifestsOf(VALUES.monitoring!).find(({ kind }) => kind === 'PrometheusRule');
    const alerts = parse(readFileSync(path.join(root, 'deploy/alerts.yaml'), 'utf8'));
    assert.deepEqual(rule.spec, alerts);
    assert.ok(alerts.groups[0].rules.length > 10);
    const monitor = manifestsOf(VALUES.monitoring!).find(({ kind }) => kind === 'PodMonitor');
    const [{ relabelings, authorization }] = monitor.spec.podMetricsEndpoints;
    assert.match(JSON.stringify(alerts), new RegExp(`job=\\\\"${relabelings[0].replacement}\\\\"`));
    assert.equal(authorization.credentials.key, 'POSTRIDER_METRICS_TOKEN');
  });

  test('keeps the address of clients by the PROXY protocol or by the Service', () => {
    const policy = (values: Values): string[] =>
      manifestsOf(values)
        .filter(({ spec }) => spec?.externalTrafficPolicy)
        .map(({ spec }) => spec.externalTrafficPolicy);
    assert.deepEqual(policy({}), ['Local']);
    assert.deepEqual(policy(VALUES['PROXY protocol']!), ['Cluster', 'Cluster']);
  });

  test('migrates before the pods of a new version start, once the Secret exists', () => {
    const hook = (values: Values): string =>
      manifestsOf(values).find(({ kind }) => kind === 'Job').metadata.annotations['helm.sh/hook'];
    assert.equal(hook({}), 'pre-install,pre-upgrade');
    assert.equal(hook(VALUES['external secret']!), 'pre-upgrade');
    const job = manifestsOf({}).find(({ kind }) => kind === 'Job');
    assert.deepEqual(job.spec.template.spec.containers[0].args, ['migrate']);
    assert.equal(manifestsOf(VALUES['everything off']!).filter(({ kind }) => kind === 'Job').length, 0);
  });

  test('restarts the pods after a change of a setting, and names resources after the release', () => {
    const checksum = (values: Values): string =>
      manifestsOf(values).find(({ kind }) => kind === 'Deployment').spec.template.metadata.annotations[
        'checksum/settings'
      ];
    assert.equal(checksum({}), checksum({ podLabels: { a: 'b' } }));
    assert.notEqual(checksum({}), checksum({ settings: { POSTRIDER_RATE_LIMIT: '5' } }));
    const names = (release: object, values: Values = {}): Set<string> =>
      new Set(
        manifestsOf(values, release).map(({ metadata }) => metadata.name.split('-submission')[0].split('-migrate')[0]),
      );
    assert.deepEqual([...names({ name: 'eu' })], ['eu-postrider']);
    assert.deepEqual([...names({ name: 'eu' }, { fullnameOverride: 'mail' })], ['mail']);
  });

  test('prints where the credentials are after the first installation only', () => {
    const install = render({})['NOTES.txt']!;
    assert.match(install, /first-run\.json/);
    assert.match(install, /self-signed/);
    assert.match(install, /port-forward service\/postrider 3000:80/);
    const upgrade = render(VALUES.ingress!, { isUpgrade: true })['NOTES.txt']!;
    assert.doesNotMatch(upgrade, /first-run|Warning/);
  });

  const REFUSED: [Values, RegExp][] = [
    [{ image: { repository: '' } }, /Set image\.repository/],
    [{ baseUrl: '' }, /Set baseUrl/],
    [{ existingSecret: '' }, /Set existingSecret/],
    [{ content: { url: '' } }, /Set content\.url/],
    [
      { content: { ...(needed.content as Values), existingClaim: 'x' } },
      /Set either content\.url or content\.existingClaim/,
    ],
    [{ replicas: 3 }, /replicas is not allowed/],
    [{ image: { repo: 'x' } }, /repo is not allowed/],
    [{ settings: { POSTRIDER_RATE_LIMT: '5' } }, /POSTRIDER_RATE_LIMT/],
    [{ settings: { POSTRIDER_RATE_LIMIT: 5 } }, /Expected: string, given: integer/],
    [{ settings: { POSTRIDER_SECRET_KEY: 'x' } }, /POSTRIDER_SECRET_KEY/],
    [{ settings: { POSTRIDER_HTTP_PORT: '80' } }, /POSTRIDER_HTTP_PORT/],
    [{ terminationGracePeriodSeconds: 30 }, /greater than or equal to 40/],
    [{ runAsUser: 0 }, /greater than or equal to 1/],
    [{ trustedProxies: ['ingress'] }, /trustedProxies\.0/],
    [{ roles: [{ name: '', roles: ['api', 'delivery', 'webhook'], replicas: 1 }] }, /must be one of/],
    [{ roles: [{ name: '', roles: ['api', 'smtp', 'delivery'], replicas: 1 }] }, /No entry of roles runs webhooks/],
    [{ roles: [apart[0]!, apart[0]!] }, /its own name/],
    [{ roles: [{ ...apart[1]!, replicas: 1 }] }, /roles\.0/],
    [{ resources: null, roles: [apart[0]!, apart[1]!], inbound: { enabled: true } }, /cpuPercent is a share of/],
    [
      {
        roles: [
          {
            ...apart[1]!,
            roles: ['api', 'smtp', 'delivery', 'webhooks'],
            autoscaling: { minReplicas: 3, maxReplicas: 2, cpuPercent: 70 },
          },
        ],
      },
      /minReplicas must not be greater/,
    ],
    [{ submission: { enabled: false } }, /submission\.enabled needs/],
    [{ inbound: { enabled: true } }, /inbound\.enabled needs/],
    [{ submission: { proxyProtocol: true } }, /trustedProxies/],
    [{ externalSecret: { enabled: true, secretStoreRef: { name: 'vault' } } }, /Set externalSecret\.key/],
  ];
  for (const [values, message] of REFUSED) {
    test(`refuses ${JSON.stringify(values)}`, () => {
      assert.throws(() => render(values), message);
    });
  }

  test('is the source of deploy/kubernetes', () => {
    const file = path.join(root, 'deploy/kubernetes/postrider.yaml');
    assert.equal(readFileSync(file, 'utf8'), kubernetesBase(renderer!), 'run: node scripts/kubernetes.ts');
    const { resources } = parse(readFileSync(path.join(root, 'deploy/kubernetes/kustomization.yaml'), 'utf8'));
    assert.deepEqual(resources, [path.basename(file)]);
  });
});

/** Merges like Helm: objects by key, everything else replaced. */
function merged(below: Values, above: Values): Values {
  const isObject = (value: unknown): value is Values =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const entries = Object.entries(above).map(([key, value]) => {
    const other = below[key];
    return [key, isObject(value) && isObject(other) && key !== 'content' ? merged(other, value) : value];
  });
  return { ...below, ...Object.fromEntries(entries) };
}

const documents = (text: string): Manifest[] =>
  parseAllDocuments(text)
    .map((one) => {
      assert.deepEqual(one.errors, []);
      return one.toJS();
    })
    .filter((one) => one !== null);

/** The templates of pods, of Deployments and of the Job. */
const podsOf = (manifests: Manifest[]): Manifest[] =>
  manifests.filter(({ kind }) => kind === 'Deployment' || kind === 'Job').map(({ spec }) => spec.template);

const matches = (labels: Record<string, string>, pod: Manifest): boolean =>
  Object.entries(labels).every(([name, value]) => pod.metadata.labels[name] === value);

/** Every selector selects a pod, every port exists there, and everything that is named exists. */
function checkReferences(manifests: Manifest[]): void {
  const deployments = manifests.filter(({ kind }) => kind === 'Deployment');
  const portsOf = (pod: Manifest): string[] => pod.spec.containers[0].ports.map((port: Manifest) => port.name);
  for (const { kind, metadata, spec } of manifests) {
    const labels =
      spec?.selector?.matchLabels ?? spec?.podSelector?.matchLabels ?? (kind === 'Service' && spec.selector);
    const selected = labels ? deployments.filter(({ spec: { template } }) => matches(labels, template)) : [];
    if (labels) assert.ok(selected.length > 0, `${kind} ${metadata.name} selects a pod`);
    const pods = selected.map((one) => one.spec.template);
    if (kind === 'Deployment' || kind === 'PodDisruptionBudget')
      assert.equal(pods.length, 1, `${kind} selects its pods`);
    if (kind === 'Service') {
      for (const { targetPort } of spec.ports)
        for (const pod of pods) assert.ok(portsOf(pod).includes(targetPort), targetPort);
    }
    if (kind === 'NetworkPolicy') {
      const open = spec.ingress.flatMap((rule: Manifest) => rule.ports.map((port: Manifest) => port.port));
      assert.deepEqual([...open].sort(), [...new Set(pods.flatMap(portsOf))].sort(), 'every port, and no other');
    }
    if (kind === 'HorizontalPodAutoscaler') {
      assert.ok(deployments.some((one) => one.metadata.name === spec.scaleTargetRef.name));
    }
    if (kind === 'Ingress') {
      const [{ backend }] = spec.rules[0].http.paths;
      const services = manifests.filter((one) => one.kind === 'Service' && one.metadata.name === backend.service.name);
      assert.ok(services[0].spec.ports.some((port: Manifest) => port.name === backend.service.port.name));
    }
  }
  for (const { spec } of podsOf(manifests)) {
    const mounted = spec.containers[0].volumeMounts.map((mount: Manifest) => mount.name).sort();
    assert.deepEqual(spec.volumes.map((volume: Manifest) => volume.name).sort(), mounted);
  }
}

function checkSecurity({ spec, metadata }: Manifest): void {
  const { securityContext, containers } = spec;
  assert.deepEqual(securityContext, {
    runAsNonRoot: true,
    runAsUser: 65_532,
    runAsGroup: 65_532,
    fsGroup: 65_532,
    fsGroupChangePolicy: 'OnRootMismatch',
    seccompProfile: { type: 'RuntimeDefault' },
  });
  assert.equal(spec.enableServiceLinks, false, 'a Service named postrider would set POSTRIDER_PORT');
  assert.equal(spec.automountServiceAccountToken, false);
  assert.equal(containers.length, 1);
  const [container] = containers;
  assert.deepEqual(container.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  assert.match(container.image, /^registry\.example\.com\/postrider(:\d+\.\d+\.\d+|@sha256:\w{64})$/);
  if (metadata.labels['app.kubernetes.io/component'] === 'migration') return;
  assert.ok(spec.terminationGracePeriodSeconds >= container.lifecycle.preStop.sleep.seconds + 35, 'a stop takes 30 s');
  const { readinessProbe, livenessProbe, startupProbe } = container;
  assert.equal(readinessProbe.httpGet.path, '/ready');
  assert.equal(livenessProbe.httpGet.path, '/health');
  for (const { timeoutSeconds } of [readinessProbe, livenessProbe, startupProbe]) {
    assert.ok(timeoutSeconds >= 5, 'a busy pod may answer late');
  }
  assert.ok(startupProbe.periodSeconds * startupProbe.failureThreshold >= 1800, 'a start may migrate a large database');
  assert.ok(livenessProbe.periodSeconds * livenessProbe.failureThreshold >= 60);
}

/** The variables of a container, with a sample for each that comes from a Secret. */
function variablesOf({ spec }: Manifest, manifests: Manifest[]): Record<string, string> {
  const [container] = spec.containers;
  const variables: Record<string, string> = { POSTRIDER_SECRET_KEY: Buffer.alloc(32, 7).toString('base64') };
  const secrets = { AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', POSTRIDER_DATABASE_URL: 'postgres://a@db/a' };
  for (const { configMapRef } of container.envFrom) {
    if (!configMapRef) continue;
    const map = manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === configMapRef.name);
    Object.assign(variables, map.data);
  }
  Object.assign(variables, secrets);
  for (const { name, value, valueFrom } of container.env) {
    if (valueFrom) assert.ok(name in secrets, name);
    else variables[name] = value;
  }
  return variables;
}

/** The service accepts all variables, knows each of them, and its ports and files are those of the pod. */
function checkSettings(pod: Manifest, manifests: Manifest[]): void {
  const variables = variablesOf(pod, manifests);
  const { config, problems } = examineConfig(variables);
  assert.deepEqual([problems, config.unknownSettings], [[], []]);
  const [container] = pod.spec.containers;
  const mounts: string[] = container.volumeMounts.map((mount: Manifest) => mount.mountPath);
  const folders = [config.dataDir];
  if (config.blobs.kind === 'disk') folders.push(config.blobs.folder!);
  if (config.smtpTlsCert) folders.push(path.dirname(config.smtpTlsCert));
  for (const folder of folders) assert.ok(mounts.includes(folder), folder);
  if (!container.ports) return;
  const ports = Object.fromEntries(container.ports.map((port: Manifest) => [port.name, port.containerPort]));
  assert.equal(ports.http, config.httpPort);
  assert.equal(ports.smtp, config.roles.includes('smtp') ? config.smtpPort : undefined);
  assert.equal(ports.inbound, config.roles.includes('inbound') ? config.inboundPort : undefined);
  assert.equal(ports.smtps, config.roles.includes('smtp') ? config.smtpsPort : undefined);
}

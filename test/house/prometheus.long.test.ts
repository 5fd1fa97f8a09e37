/**
 * deploy/alerts.yaml and deploy/dashboards in a real Prometheus that scrapes a real service: every rule is evaluated, no alert fires while
 * the service is healthy, every query of the dashboards is valid, those of a single node return data, and a stopped service is reported.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { root } from './source-tree.ts';

const skip = missing('prometheus', 'promtool');
const TOKEN = 'a-token-for-metrics';
const alerts = readFileSync(path.join(root, 'deploy/alerts.yaml'), 'utf8');

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-prometheus-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('promtool accepts the alerting rules', { skip }, (t) => {
  const file = path.join(folderOf(t), 'alerts.yaml');
  const check = (text: string): string => {
    writeFileSync(file, text);
    return execFileSync('promtool', ['check', 'rules', file], { encoding: 'utf8', stdio: 'pipe' });
  };
  const count = alerts.match(/- alert:/g)!.length;
  assert.match(check(alerts), new RegExp(`SUCCESS: ${count} rules found`));
  assert.throws(() => check(alerts.replace('> 900', '> 900 >')), /could not parse expression/, 'control');
});

/** Samples of one time series, at intervals of a minute, in the notation of promtool. */
interface Samples {
  series: string;
  values: string;
}

/** A situation, and the alerts that fire in it after so many minutes. */
interface Situation {
  name: string;
  samples: Samples[];
  minutes: number;
  firing: Record<string, { labels: Record<string, string>; summary: string }[]>;
}

const MODE = 'job="postrider",mode="live"';
/** One node accepts messages, and two deliver them. `bounced` and `delivered` are messages a minute, at both together. */
const deliveries = (bounced: number, delivered: number): Samples[] => [
  { series: `postrider_messages_accepted_total{${MODE},instance="api"}`, values: '0+100x120' },
  ...['one', 'two'].flatMap((instance) => [
    { series: `postrider_messages_bounced_total{${MODE},instance="${instance}"}`, values: `0+${bounced / 2}x120` },
    { series: `postrider_messages_delivered_total{${MODE},instance="${instance}"}`, values: `0+${delivered / 2}x120` },
  ]),
  { series: 'postrider_messages_bounced_total{job="postrider",mode="sandbox",instance="one"}', values: '0+500x120' },
];
const webhooks = (failed: number, succeeded: number): Samples[] => [
  {
    series: 'postrider_webhook_attempts_total{job="postrider",result="failed",instance="one"}',
    values: `0+${failed}x120`,
  },
  {
    series: 'postrider_webhook_attempts_total{job="postrider",result="succeeded",instance="two"}',
    values: `0+${succeeded}x120`,
  },
];
const [NODE, JOB] = [{ job: 'postrider', instance: 'one' }, { job: 'postrider' }];
const steady = (series: string, value: number | string): Samples => ({
  series: series.replace('{', `{job="postrider",instance="one",`),
  values: typeof value === 'string' ? value : `${value}+0x120`,
});

const SITUATIONS: Situation[] = [
  {
    name: '10 % of the messages bounce, at nodes that accept none',
    samples: deliveries(10, 90),
    minutes: 90,
    firing: {
      PostriderBounceRateHigh: [{ labels: JOB, summary: '10% of the live messages of the last hour bounced.' }],
    },
  },
  {
    name: '4 % of the messages bounce',
    samples: deliveries(4, 96),
    minutes: 90,
    firing: { PostriderBounceRateHigh: [] },
  },
  {
    name: 'a few messages bounce, and no other is sent',
    samples: deliveries(0.2, 0),
    minutes: 90,
    firing: { PostriderBounceRateHigh: [] },
  },
  {
    name: 'most requests of webhooks fail',
    samples: webhooks(6, 4),
    minutes: 60,
    firing: { PostriderWebhooksFailing: [{ labels: JOB, summary: '60% of webhook requests fail.' }] },
  },
  { name: 'less than half fail', samples: webhooks(4, 6), minutes: 60, firing: { PostriderWebhooksFailing: [] } },
  {
    name: 'one request in five seconds fails',
    samples: ['/send', '/messages/:id'].map((route) =>
      steady(`postrider_http_requests_total{class="5xx",status="503",route="${route}"}`, '0+6x120'),
    ),
    minutes: 20,
    firing: {
      PostriderServerErrors: [{ labels: { instance: 'one' }, summary: '0.20 requests per second fail with 5xx.' }],
    },
  },
  {
    name: 'one request a minute fails',
    samples: [steady('postrider_http_requests_total{class="5xx",status="500",route="/send"}', '0+1x120')],
    minutes: 20,
    firing: { PostriderServerErrors: [] },
  },
  {
    name: 'certificates have 13 days left, but one is self-signed',
    samples: ['files', 'self-signed'].map((source) =>
      steady(
        `postrider_certificate_expiry_seconds{port="smtp",name="mail.example.com",source="${source}"}`,
        13 * 86_400,
      ),
    ),
    minutes: 90,
    firing: {
      PostriderCertificateExpires: [
        {
          labels: { ...NODE, port: 'smtp', name: 'mail.example.com', source: 'files' },
          summary: 'The certificate of mail.example.com expires in 13d 0h 0m 0s.',
        },
      ],
    },
  },
  {
    name: 'a certificate has 15 days left, the disk 2.1 GB, and the last backup is a day old',
    samples: [
      steady('postrider_certificate_expiry_seconds{source="authority"}', 15 * 86_400),
      steady('postrider_disk_free_bytes{disk="data"}', 2.1e9),
      steady('postrider_backup_age_seconds{}', 86_400),
    ],
    minutes: 90,
    firing: { PostriderCertificateExpires: [], PostriderDiskAlmostFull: [], PostriderBackupMissing: [] },
  },
  {
    name: 'the disk has 1.5 GiB, and the last backup is three days old',
    samples: [
      steady('postrider_disk_free_bytes{disk="data"}', 1.5 * 2 ** 30),
      steady('postrider_backup_age_seconds{}', 3 * 86_400),
    ],
    minutes: 90,
    firing: {
      PostriderDiskAlmostFull: [
        {
          labels: { ...NODE, disk: 'data' },
          summary: '1.5GiB are free on data. Postrider rejects messages below its minimum.',
        },
      ],
      PostriderBackupMissing: [{ labels: NODE, summary: 'The last scheduled backup is 3d 0h 0m 0s old.' }],
    },
  },
  {
    name: 'the database does not respond, and a process is stopping',
    samples: [steady('postrider_not_ready{reason="storage"}', 1), steady('postrider_not_ready{reason="service"}', 1)],
    minutes: 10,
    firing: {
      PostriderNotReady: [
        {
          labels: { ...NODE, reason: 'storage' },
          summary: 'one accepts no messages. Reason: storage. GET /ready returns the details.',
        },
      ],
    },
  },
  {
    name: 'the first backup fails every hour',
    samples: [
      steady('postrider_backups_total{result="failed"}', '0x59 1x59 2x59 3x59 4x59 5x59 6x59'),
      steady('postrider_backups_total{result="succeeded"}', 0),
    ],
    minutes: 400,
    firing: {
      PostriderBackupsFail: [
        {
          labels: { ...NODE, result: 'failed' },
          summary: 'Scheduled backups have failed for hours. The log has the error.',
        },
      ],
    },
  },
  {
    name: 'three backups failed, and then one succeeded',
    samples: [
      steady('postrider_backups_total{result="failed"}', '0x59 1x59 2x59 3x299'),
      steady('postrider_backups_total{result="succeeded"}', '0x239 1x200'),
    ],
    minutes: 360,
    firing: { PostriderBackupsFail: [] },
  },
  {
    name: 'a message was due for 19 minutes, and then attempted',
    samples: [steady('postrider_queue_oldest_age_seconds{}', '0+60x19 0x40')],
    minutes: 20,
    firing: {
      PostriderQueueStuck: [],
    },
  },
  {
    name: 'a message has been due for 25 minutes',
    samples: [steady('postrider_queue_oldest_age_seconds{}', '0+60x40')],
    minutes: 25,
    firing: {
      PostriderQueueStuck: [{ labels: NODE, summary: 'A message has been due for 25m 0s and was not attempted.' }],
    },
  },
];

/** The situations for promtool. */
function ruleTests(): object[] {
  const rules = (parse(alerts) as { groups: { rules: Alert[] }[] }).groups.flatMap((group) => group.rules);
  return SITUATIONS.map(({ name, samples, minutes, firing }) => ({
    name,
    interval: '1m',
    input_series: samples,
    alert_rule_test: Object.entries(firing).map(([alertname, expected]) => {
      const { labels, annotations } = rules.find((one) => one.alert === alertname)!;
      return {
        eval_time: `${minutes}m`,
        alertname,
        exp_alerts: expected.map((one) => ({
          exp_labels: { ...labels, ...one.labels },
          exp_annotations: { ...annotations, summary: one.summary },
        })),
      };
    }),
  }));
}

test('alerts with arithmetic fire in the right situations only', { skip }, (t) => {
  const folder = folderOf(t);
  const file = path.join(folder, 'tests.yaml');
  const check = (text: string): string => {
    writeFileSync(path.join(folder, 'alerts.yaml'), text);
    writeFileSync(file, JSON.stringify({ rule_files: ['alerts.yaml'], evaluation_interval: '1m', tests: ruleTests() }));
    return execFileSync('promtool', ['test', 'rules', file], { encoding: 'utf8', stdio: 'pipe' });
  };
  assert.match(check(alerts), /SUCCESS/);
  assert.throws(() => check(alerts.replaceAll('by (job, namespace)', 'by (instance)')), /FAILED/, 'control');
});

interface Alert {
  alert: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

interface Panel {
  title: string;
  targets: { expr: string }[];
}

interface Dashboard {
  uid: string;
  title: string;
  panels: Panel[];
}

const dashboards = globSync('deploy/dashboards/*.json', { cwd: root }).map(
  (name) => JSON.parse(readFileSync(path.join(root, name), 'utf8')) as Dashboard,
);

/** Panels without data on this service, which has the embedded database, no scheduled backup, and nothing to report. */
const EMPTY = [
  'Blocked time by destination',
  'Bounces by category and provider',
  'Connections by destination',
  'Connections to PostgreSQL',
  'Dead rows by table',
  'Log retained by replication slots',
  'Oldest snapshot of PostgreSQL, transactions',
  'Operations waiting for a connection',
  'Pauses by destination',
  'Queue by destination',
  'Time since the last scheduled backup',
];

/** Calls the API of Prometheus; returns its data. */
type Ask = <T>(request: string) => Promise<T>;

/** Starts Prometheus with the rules, which do not wait before they fire. */
async function startPrometheus(t: TestContext, service: Service): Promise<Ask> {
  const folder = folderOf(t);
  const rules = path.join(folder, 'alerts.yaml');
  writeFileSync(rules, alerts.replaceAll(/\bfor: \d+\w/g, 'for: 0s'));
  const config = path.join(folder, 'prometheus.yaml');
  const job = {
    job_name: 'postrider',
    authorization: { credentials: TOKEN },
    static_configs: [{ targets: [new URL(service.url).host] }],
  };
  const global = { scrape_interval: '1s', evaluation_interval: '1s' };
  writeFileSync(config, JSON.stringify({ global, scrape_configs: [job], rule_files: [rules] }));
  const port = await freePort();
  const options = [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`];
  const prometheus = spawn('prometheus', [...options, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' });
  const ended = new Promise((resolve) => prometheus.once('exit', resolve));
  t.after(async () => {
    prometheus.kill('SIGKILL');
    await ended;
  });
  return async (request) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${request}`);
    const { status, data, error } = (await response.json()) as { status: string; data: never; error?: string };
    assert.equal(status, 'success', `${request}: ${error}`);
    return data;
  };
}

interface Rule {
  name: string;
  health: string;
  lastError?: string;
  state: string;
}

test('Prometheus evaluates the alerts and the queries of the dashboards', { skip, timeout: 180_000 }, async (t) => {
  const service = await startService({ env: { POSTRIDER_METRICS_TOKEN: TOKEN } });
  t.after(() => service.close());
  const ask = await startPrometheus(t, service);
  const mail = { from: 'shop@shop.example', to: 'ann@example.com', subject: 'Order', text: 'Thank you.' };
  const sent = await service.sandboxApi.post('/send', mail);
  assert.equal(sent.status, 202, sent.text);

  const value = async (query: string): Promise<string | undefined> => {
    const { result } = await ask<{ result: { value: [number, string] }[] }>(`query?query=${encodeURIComponent(query)}`);
    return result[0]?.value[1];
  };
  await waitUntil(
    'two scrapes',
    // Prometheus does not answer while it starts.
    () => value('count_over_time(up[1m]) > 3').catch(() => undefined),
    60_000,
  );
  assert.equal(await value('up{job="postrider"}'), '1');

  const rules = async (): Promise<Rule[]> => {
    const { groups } = await ask<{ groups: { rules: Rule[] }[] }>('rules');
    return groups.flatMap((group) => group.rules);
  };
  const evaluated = await waitUntil('the rules', async () => {
    const all = await rules();
    return all.length > 0 && all.every(({ health }) => health !== 'unknown') && all;
  });
  for (const { name, health, lastError, state } of evaluated) {
    assert.equal(health, 'ok', `${name}: ${lastError}`);
    assert.equal(state, 'inactive', name);
  }

  assert.deepEqual(dashboards.map(({ title }) => title.replace('Postrider: ', '')).sort(), [
    'destinations',
    'overview',
    'storage',
    'webhooks',
  ]);
  assert.equal(new Set(dashboards.map(({ uid }) => uid)).size, dashboards.length);
  const empty = new Set<string>();
  for (const { panels } of dashboards) {
    for (const { title, targets } of panels) {
      const queries = targets.map(({ expr }) =>
        expr.replaceAll('$instance', '.+').replaceAll('$__rate_interval', '1m'),
      );
      const values = await Promise.all(queries.map(value));
      if (values.every((one) => one === undefined)) empty.add(title);
    }
  }
  assert.deepEqual([...empty].sort(), EMPTY);

  await service.kill('SIGTERM');
  await waitUntil('the alert', async () =>
    (await rules()).some(({ name, state }) => name === 'PostriderDown' && state === 'firing'),
  );
});

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
    async () => (await value('count_over_time(up[1m]) > 3').catch(() => '')) ?? false,
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

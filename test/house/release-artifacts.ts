/** Builds artifacts of a release, and uses an installed service as its first user does. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { apiClient, type JsonObject } from '../kit/api.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { root } from './source-tree.ts';

export const EPOCH = 1_790_000_000;

/** Builds into the folder; an unusual build has another umask and time zone. */
export async function buildRelease(
  target: string,
  options: string[],
  { isUnusual = false }: { isUnusual?: boolean } = {},
): Promise<void> {
  const script = path.join(root, 'scripts/release.ts');
  const args = ['--disable-warning=ExperimentalWarning', script, '--out', target, ...options];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(EPOCH), ...(isUnusual && { TZ: 'Asia/Tokyo' }) };
  const shell = ['-c', 'umask $0; exec "$@"', isUnusual ? '077' : '022', process.execPath, ...args];
  await promisify(execFile)('sh', shell, { env });
}

/** Returns the SHA-256 of each artifact by its name, without the checksums and their signature. */
export function digests(of: string): Record<string, string> {
  const names = readdirSync(of).filter((name) => !name.startsWith('SHA256SUMS'));
  const sum = (name: string): string =>
    createHash('sha256')
      .update(readFileSync(path.join(of, name)))
      .digest('hex');
  return Object.fromEntries(names.sort().map((name) => [name, sum(name)]));
}

/** The environment of a user: without the variables and the Node of this project. */
export function userEnvironment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_(?!EXTRA_CA_CERTS)|POSTRIDER_)/i.test(name),
  );
  const PATH = (process.env.PATH ?? '').split(':').filter((one) => !one.includes('node_modules'));
  return { ...Object.fromEntries(kept), PATH: [...PATH, '/usr/sbin', '/sbin'].join(':'), ...more };
}

/** Sends an email in the sandbox and waits for its delivery. Returns its id. */
export async function sendsAnEmail(url: string, firstRun: JsonObject): Promise<string> {
  const api = apiClient(() => url, { accountId: firstRun.accountId, apiKey: firstRun.sandboxApiKey });
  try {
    const mail = { from: 'shop@shop.example', to: 'ann@example.com', subject: 'Order', text: 'Thank you.' };
    const sent = await api.post('/send', mail);
    assert.equal(sent.status, 202, sent.text);
    const { messageId } = sent.body.data;
    await waitUntil('the delivery', async () => (await api.get(`/messages/${messageId}`)).body.status === 'delivered');
    const [, script = ''] = /<script type="module"[^>]* src="([^"]+)"/.exec((await api.get('/')).text) ?? [];
    assert.equal((await api.get(script)).status, 200, 'the portal is served');
    return messageId;
  } finally {
    api.close();
  }
}

/**
 * Postrider's DKIM signer and MIME composer compared with nodemailer's, and its templates compared with Liquid's, in one process and
 * interleaved: every round measures each side once, and a ratio is taken within its round. Prints medians and the spread. `node
 * bench/micro.ts [rounds]`.
 *
 * Both signers get the same 5 KB message and the same RSA-2048 key, each in the form of its interface (a parsed key object, a PEM text),
 * one signature after another; both composers the same text and html of about 2 KB. The RSA operation alone is printed too: no signer can
 * be faster. Both template engines render the same parsed html and escape their output; Postrider's also reports variables without a value,
 * and finds the html in its cache of parsed sources.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { cpus } from 'node:os';
import type { Readable } from 'node:stream';
import { Liquid } from 'liquidjs';
import NodemailerDkim from 'nodemailer/lib/dkim';
import MailComposer from 'nodemailer/lib/mail-composer';
import { parseAddress } from '../src/mail/address.ts';
import { compose, type MailToCompose } from '../src/mail/compose/compose.ts';
import { type DkimSigners, signDkim, signDkimSync } from '../src/mail/compose/dkim-sign.ts';
import { htmlToText } from '../src/mail/html/html-text.ts';
import { createRender } from '../src/templates/templates.ts';

const ROUND_MS = 500;
const rounds = Math.max(5, Number(process.argv[2] ?? 7));

interface Row {
  name: string;
  ours: () => unknown;
  theirs: () => unknown;
  atLeast: number;
  goal: number;
}

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const line = 'The quick brown fox jumps over the lazy dog. 0123456789 abcdefghijk\r\n';
const message = Buffer.from(
  'From: <a@bench.example>\r\nTo: <b@sink.example>\r\nSubject: bench\r\nDate: Fri, 20 Nov 2026 10:00:00 +0000\r\n' +
    `Message-ID: <1@bench.example>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\n${line.repeat(75)}`,
);
const signer = new NodemailerDkim({ domainName: 'bench.example', keySelector: 's1', privateKey: pem });

const signers = (): DkimSigners => ({
  domain: 'bench.example',
  keys: [{ algorithm: 'rsa', selector: 's1', privateKey }],
  nowMs: Date.now(),
});

/** Reads a signed message to its end and discards it. */
function drain(stream: Readable): Promise<number> {
  return new Promise((resolve, reject) => {
    let sizeBytes = 0;
    stream.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length;
    });
    stream.on('end', () => resolve(sizeBytes));
    stream.on('error', reject);
  });
}

function address(text: string) {
  const parsed = parseAddress(text);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

const html = `<p>${'Hello world, this is your receipt. '.repeat(60)}</p>`;
const text = 'Hello world, this is your receipt.\n'.repeat(40);
const theirMail = { from: 'Shop <a@bench.example>', to: 'b@sink.example', subject: 'Your receipt', text, html };
const ourMail = (): MailToCompose => ({
  from: address('Shop <a@bench.example>'),
  to: [address('b@sink.example')],
  cc: [],
  replyTo: [],
  subject: 'Your receipt',
  text,
  html,
  headers: [],
  attachments: [],
  messageId: '<1@bench.example>',
  dateMs: Date.now(),
});
const names = Array.from({ length: 30 }, (_, i) => `value_${i}`);
const orderVariables: Record<string, unknown> = {
  ...Object.fromEntries(names.map((name) => [name, `the ${name} of Ann & Bob`])),
  items: Array.from({ length: 20 }, (_, i) => ({ name: `Article <${i}>`, quantity: i, price: i * 1.5 })),
};
const orderHtml = `<html><body>${names.map((name) => `<p>Your {{ ${name} }}.</p>`).join('\n')}<table>
{% for item in items %}<tr><td>{{ item.name }}</td><td>{{ item.quantity }}</td><td>{{ item.price }}</td></tr>
{% endfor %}</table></body></html>`;
const render = createRender(htmlToText);
const ourOrder = () => {
  const rendered = render({
    ...{ html: orderHtml, variables: orderVariables, accountVariables: {}, keepMissing: false, deriveText: false },
  });
  if (!rendered.ok) throw new Error(rendered.failure.message);
  return rendered.value.html;
};
const liquid = new Liquid({ outputEscape: 'escape', ownPropertyOnly: true });
const parsedOrder = liquid.parse(orderHtml);
const theirOrder = (): unknown => liquid.renderSync(parsedOrder, orderVariables);
if (ourOrder() !== theirOrder()) throw new Error('the two renderings differ');

const rows: Row[] = [
  {
    name: 'DKIM: one 5 KB signature, one thread, vs nodemailer',
    ours: () => signDkimSync({ content: message, ...signers() }),
    theirs: () => drain(signer.sign(message) as unknown as Readable),
    atLeast: 1.9,
    goal: 2.3,
  },
  {
    name: 'DKIM: the same, RSA in the thread pool, one in flight',
    ours: () => signDkim({ content: message, ...signers() }),
    theirs: () => drain(signer.sign(message) as unknown as Readable),
    atLeast: 1.9,
    goal: 2.3,
  },
  {
    name: 'MIME text+html: compose, vs nodemailer MailComposer',
    ours: () => compose(ourMail()),
    theirs: () => new MailComposer(theirMail).compile().build(),
    atLeast: 3,
    goal: 6,
  },
  {
    name: 'template rendering: 30 variables and a loop of 20 lines, cached parse, vs liquidjs alone',
    ours: ourOrder,
    theirs: theirOrder,
    atLeast: 0.8,
    goal: 0.95,
  },
];

/** Returns microseconds per call, one after another for `ROUND_MS`. */
async function measure(call: () => unknown): Promise<number> {
  const start = performance.now();
  let calls = 0;
  let elapsedMs = 0;
  while (elapsedMs < ROUND_MS) {
    for (let i = 0; i < 20; i += 1) {
      const result = call();
      if (result instanceof Promise) await result;
    }
    calls += 20;
    elapsedMs = performance.now() - start;
  }
  return (elapsedMs * 1000) / calls;
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

const rsaAlone = await measure(() => sign('sha256', message.subarray(0, 900), privateKey));
console.log(`${cpus()[0]?.model ?? 'unknown cpu'}, ${cpus().length} cores, node ${process.version}, ${rounds} rounds`);
console.log(`RSA-2048 alone: ${rsaAlone.toFixed(1)} µs`);
for (const row of rows) {
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const [a, b] = [await measure(row.ours), await measure(row.theirs)];
    // The first round is a warm-up.
    if (round > 0) {
      ours.push(a);
      theirs.push(b);
    }
  }
  const ratios = ours.map((us, i) => theirs[i]! / us);
  const spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`;
  const verdict = median(ratios) >= row.goal ? 'goal reached' : median(ratios) >= row.atLeast ? 'at least' : 'BELOW';
  console.log(
    `${row.name}: ${median(ratios).toFixed(2)}x (${spread}); ours ${median(ours).toFixed(1)} µs, theirs ${median(theirs).toFixed(1)} µs; ` +
      `at least ${row.atLeast}, goal ${row.goal}: ${verdict}`,
  );
}

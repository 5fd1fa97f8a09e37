/**
 * Runs the transcripts of test/dialogs with the real listener. One step per line:
 *
 *   # text             a comment
 *   C: MAIL FROM:<…>   the client sends this line; consecutive lines of the client are sent in one write
 *   C "a\n.\n"         the client sends these bytes (a JSON string of Latin-1 characters) without a line end
 *   S: 250 2.1.0 *     the server replies with this line; * matches anything
 *   S: (closed)        the server has closed the connection without another line
 *   @ tls              the client starts the handshake, which must succeed
 *   @ log in live      EHLO, STARTTLS, EHLO and AUTH, all of them accepted (or: sandbox)
 *   @ connect          a new connection replaces the current one
 *   @ accepted 2       this many messages were accepted since the last such line
 *   @ silence          the server sends nothing for a moment
 *   @ limits {…}       on the first line of steps: limits of the listener, as JSON
 *
 * {name} is replaced by a value of the rig. {user live}, {pass live} and {plain live} are replaced by the values of a login, in Base64.
 * Each transcript has its own listener.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { SmtpLimits, SmtpServer } from '../../src/smtp/smtp.ts';
import { connectTalker, plainResponse, type Talker } from './smtp-talker.ts';

export interface DialogRig {
  readonly accepted: readonly unknown[];
  listen(options: { limits?: Partial<SmtpLimits> }): Promise<{ server: SmtpServer; port: number }>;
  /** For submission. */
  readonly credentials?: Readonly<Record<'live' | 'sandbox', { username: string; password: string }>>;
  /** More values for {name}. */
  readonly words?: Readonly<Record<string, string>>;
}

interface Step {
  kind: 'C' | 'bytes' | 'S' | '@';
  text: string;
  /** Line number, from 1. */
  line: number;
}

const SILENCE_MS = 60;

export function readSteps(file: string): Step[] {
  const steps: Step[] = [];
  for (const [index, text] of readFileSync(file, 'utf8').split('\n').entries()) {
    const line = index + 1;
    if (text === '' || text.startsWith('#')) continue;
    const bytes = /^C (".*")$/.exec(text);
    const found = /^(C:|S:|@)(?: (.*))?$/.exec(text);
    if (bytes !== null) steps.push({ kind: 'bytes', text: bytes[1]!, line });
    else if (found !== null) steps.push({ kind: found[1]![0] as 'C' | 'S' | '@', text: found[2] ?? '', line });
    else throw new Error(`${file}:${line}: invalid step: ${text}`);
  }
  return steps;
}

function filledIn(text: string, rig: DialogRig): string {
  const base64 = (value: string): string => Buffer.from(value).toString('base64');
  const shown = text.replace(/\{(\w+)\}/g, (found, word: string) => rig.words?.[word] ?? found);
  return shown.replace(/\{(user|pass|plain) (live|sandbox)\}/g, (_, what: string, mode: 'live' | 'sandbox') => {
    const credential = rig.credentials![mode];
    if (what === 'plain') return plainResponse(credential);
    return base64(what === 'user' ? credential.username : credential.password);
  });
}

function matches(pattern: string, said: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(said);
}

interface Stage {
  rig: DialogRig;
  port: number;
  talker: Talker;
  /** Messages accepted at the last count. */
  counted: number;
}

const ORDERS: [pattern: RegExp, run: (stage: Stage, found: RegExpExecArray) => void | Promise<void>][] = [
  [/^tls$/, (stage) => stage.talker.startTls()],
  [
    /^log in (live|sandbox)$/,
    async (stage, [, mode]) => stage.talker.logIn(stage.rig.credentials![mode as 'live' | 'sandbox']),
  ],
  [
    /^connect$/,
    async (stage) => {
      stage.talker.destroy();
      stage.talker = await connectTalker(stage.port);
    },
  ],
  [
    /^accepted (\d+)$/,
    (stage, [, count]) => {
      const before = stage.counted;
      stage.counted = stage.rig.accepted.length;
      assert.equal(stage.counted - before, Number(count), 'messages accepted');
    },
  ],
  [
    /^silence$/,
    async ({ talker }) => {
      const said = await talker.line(SILENCE_MS).catch(() => '(nothing)');
      assert.equal(said, '(nothing)');
    },
  ],
];

async function runStep(stage: Stage, { kind, text }: Step, sending: { text: string }): Promise<void> {
  const { rig, talker } = stage;
  if (kind === 'C') {
    sending.text += `${Buffer.from(filledIn(text, rig)).toString('latin1')}\r\n`;
    return;
  }
  if (kind === 'bytes') {
    sending.text += JSON.parse(text) as string;
    return;
  }
  if (sending.text !== '') talker.send(sending.text);
  sending.text = '';
  if (kind === 'S') {
    const said = await talker.line();
    if (text === '(closed)') assert.equal(said, undefined);
    else assert.ok(said !== undefined && matches(text, said), `wanted ${text}\nheard  ${said ?? '(closed)'}`);
    return;
  }
  for (const [pattern, run] of ORDERS) {
    const found = pattern.exec(text);
    if (found !== null) return run(stage, found);
  }
  throw new Error(`invalid command: ${text}`);
}

/** Throws with the line of the transcript that did not match. */
export async function runDialog(file: string, rig: DialogRig): Promise<void> {
  const steps = readSteps(file);
  const first = /^limits (.*)$/.exec(steps[0]?.text ?? '');
  const limits = first === null ? {} : (JSON.parse(first[1]!) as Partial<SmtpLimits>);
  const { server, port } = await rig.listen({ limits });
  const stage: Stage = { rig, port, talker: await connectTalker(port), counted: rig.accepted.length };
  const sending = { text: '' };
  try {
    for (const step of first === null ? steps : steps.slice(1)) {
      await runStep(stage, step, sending).catch((error: Error) => {
        throw new Error(`${file}:${step.line}: ${error.message}`);
      });
    }
    if (sending.text !== '') stage.talker.send(sending.text);
  } finally {
    stage.talker.destroy();
    await server.stop({ deadlineMs: 500 });
  }
}

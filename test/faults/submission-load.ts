/**
 * Load by SMTP submission on several nodes, for the ledger: sessions stay open for several messages, and a session that a node ends is
 * replaced by one with the next node. A message has no idempotency key, so a dot without a reply may not be repeated; these are counted.
 */
import type { Answer } from '../kit/api.ts';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import type { Service } from '../kit/start-service.ts';
import { type Ledger, type Load, smallMail, startLoad } from './ledger.ts';

const MESSAGES_PER_SESSION = 10;

export interface SubmissionLoad extends Load {
  /** Keys whose final dot got no reply. */
  readonly unanswered: string[];
  /** Messages accepted by each node, in the order of the nodes. */
  readonly accepted: number[];
  /** Replies other than 250 and 354, and closed connections. */
  readonly interruptions: number;
}

interface Session {
  talker: Talker;
  node: number;
  left: number;
}

export interface SubmissionLoadOptions {
  nodes: readonly Service[];
  ledger: Ledger;
  from: string;
  workers: number;
  prefix: string;
}

export function startSubmissionLoad({ nodes, ledger, from, workers, prefix }: SubmissionLoadOptions): SubmissionLoad {
  const idle: Session[] = [];
  const unanswered: string[] = [];
  const accepted = nodes.map(() => 0);
  let interruptions = 0;
  let turn = 0;

  const open = async (): Promise<Session> => {
    turn += 1;
    const node = turn % nodes.length;
    const { smtpPort, smtpCredential } = nodes[node]!;
    const talker = await connectTalker(smtpPort);
    try {
      const greeting = await talker.reply();
      if (!greeting.startsWith('220 ')) throw new Error(greeting);
      await talker.logIn(smtpCredential);
    } catch (error) {
      talker.destroy();
      throw error;
    }
    return { talker, node, left: MESSAGES_PER_SESSION };
  };

  /** Submits the message. Returns its id, or undefined if the node rejected it before the dot. Throws if the connection closes. */
  const submit = async ({ talker }: Session, key: string): Promise<string | undefined> => {
    const { to, subject, text } = smallMail(from, key);
    for (const line of [`MAIL FROM:<${from}>`, `RCPT TO:<${to}>`, 'DATA']) {
      if (!/^[23]/.test(await talker.say(line))) return undefined;
    }
    talker.send(`From: ${from}\r\nTo: ${to}\r\nSubject: ${subject}\r\n\r\n${text.replaceAll('\n', '\r\n')}.\r\n`);
    const reply = await talker.reply().catch((error: Error) => {
      unanswered.push(key);
      throw error;
    });
    return /^250 2\.0\.0 queued as (msg_\w+)$/.exec(reply)?.[1];
  };

  const request = async (key: string): Promise<Answer | undefined> => {
    let session: Session | undefined;
    try {
      session = idle.pop() ?? (await open());
      const messageId = await submit(session, key);
      if (messageId === undefined) throw new Error('rejected');
      accepted[session.node]! += 1;
      session.left -= 1;
      if (session.left > 0) idle.push(session);
      else session.talker.destroy();
      return { status: 202, headers: {}, text: '', body: { data: { messageId } } };
    } catch {
      interruptions += 1;
      session?.talker.destroy();
      return undefined;
    }
  };
  const load = startLoad({ api: nodes[0]!.api, ledger, from, workers, prefix, request });
  return {
    finish: async () => {
      await load.finish();
      for (const { talker } of idle.splice(0)) talker.destroy();
    },
    abandon: () => {
      load.abandon();
      for (const { talker } of idle.splice(0)) talker.destroy();
    },
    unanswered,
    accepted,
    get interruptions() {
      return interruptions;
    },
  };
}

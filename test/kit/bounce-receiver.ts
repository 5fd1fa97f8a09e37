/** A service that receives bounces: its addresses with tokens, and a server that sends reports to its inbound port. */
import { createTokenAddresses } from '../../src/mail/token-address.ts';
import { connectTalker } from './smtp-talker.ts';

export const BOUNCE_DOMAIN = 'bounces.postrider.test';
const SECRET_KEY = Buffer.alloc(32, 17);

/** Settings of such a service. */
export const bounceAddresses = {
  POSTRIDER_SECRET_KEY: SECRET_KEY.toString('base64'),
  POSTRIDER_BOUNCE_DOMAIN: BOUNCE_DOMAIN,
  POSTRIDER_INBOUND_PORT: '0',
};

const tokens = createTokenAddresses(SECRET_KEY);

/** Returns the return path of a copy, or the address in its List-Unsubscribe. */
export function tokenAddress(use: 'bounce' | 'unsubscribe', messageId: string, madeAtMs = Date.now()): string {
  return `${tokens.make(use, { messageId }, madeAtMs)}@${BOUNCE_DOMAIN}`;
}

/**
 * Sends a message as another server does, from the null sender; returns the deciding reply. With pipelining (RFC 2920), as most servers do
 * it, MAIL, RCPT and DATA go together, and the content with its dot. `onDot` is called when the dot is sent.
 */
export async function bring(
  port: number,
  mail: { to: string; content: Buffer },
  { isPipelined = false, onDot }: { isPipelined?: boolean; onDot?: () => void } = {},
): Promise<string> {
  const talker = await connectTalker(port);
  try {
    await talker.reply();
    const envelope = ['MAIL FROM:<>', `RCPT TO:<${mail.to}>`, 'DATA'];
    for (const lines of [['EHLO mx.example'], ...(isPipelined ? [envelope] : envelope.map((line) => [line]))]) {
      talker.send(lines.map((line) => `${line}\r\n`).join(''));
      for (const _ of lines) {
        const reply = await talker.reply();
        if (!/^[23]/.test(reply)) return reply;
      }
    }
    const content = mail.content.toString('latin1').replace(/^\./gm, '..');
    const end = content.endsWith('\r\n') ? '.\r\n' : '\r\n.\r\n';
    for (const piece of isPipelined ? [content + end] : [content, end]) talker.send(piece);
    onDot?.();
    return await talker.reply();
  } finally {
    talker.destroy();
  }
}

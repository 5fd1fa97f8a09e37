/** A service that mail comes back to: its addresses with tokens, and a server that brings reports to its inbound port. */
import { createTokenAddresses } from '../../src/mail/token-address.ts';
import { connectTalker } from './smtp-talker.ts';

export const BOUNCE_DOMAIN = 'bounces.postrider.test';
const SECRET_KEY = Buffer.alloc(32, 17);

/** Settings of such a service. */
export const comesBack = {
  POSTRIDER_SECRET_KEY: SECRET_KEY.toString('base64'),
  POSTRIDER_BOUNCE_DOMAIN: BOUNCE_DOMAIN,
  POSTRIDER_INBOUND_PORT: '0',
};

const tokens = createTokenAddresses(SECRET_KEY);

/** The return path of a copy, or the address in its List-Unsubscribe. */
export function tokenAddress(use: 'bounce' | 'unsubscribe', messageId: string, madeAtMs = Date.now()): string {
  return `${tokens.make(use, { messageId }, madeAtMs)}@${BOUNCE_DOMAIN}`;
}

/** Brings a mail as another server does, from the null sender; answers the reply that decided. */
export async function bring(port: number, mail: { to: string; content: Buffer }): Promise<string> {
  const talker = await connectTalker(port);
  try {
    await talker.reply();
    for (const line of ['EHLO mx.example', 'MAIL FROM:<>', `RCPT TO:<${mail.to}>`, 'DATA']) {
      const reply = await talker.say(line);
      if (!/^[23]/.test(reply)) return reply;
    }
    talker.send(mail.content.toString('latin1').replace(/^\./gm, '..'));
    return await talker.say(mail.content.toString('latin1').endsWith('\r\n') ? '.' : '\r\n.');
  } finally {
    talker.destroy();
  }
}

/**
 * Selects the outcome that a sandbox message simulates. Pure. The recipient's local part before any `+` decides (`bounced`, `delayed`,
 * `complained`, `suppressed`; anything else is delivered), unless X-Sandbox-Outcome has one of these words or an SMTP reply to simulate.
 * Other texts are ignored here; the check of the send refuses them.
 */
import { parseReply, type SmtpReply } from '../mail/smtp-reply.ts';

export const SANDBOX_OUTCOMES = ['delivered', 'bounced', 'delayed', 'complained', 'suppressed'] as const;
export type SandboxOutcome = (typeof SANDBOX_OUTCOMES)[number];

/** A word, or a reply that is classified as a server's reply to RCPT. */
export type SimulatedOutcome = { kind: 'word'; word: SandboxOutcome } | { kind: 'reply'; reply: SmtpReply };

/** Parses X-Sandbox-Outcome; undefined if it is neither a word nor a reply with a code from 200 to 599. */
export function parseSandboxOutcome(text: string): SimulatedOutcome | undefined {
  const trimmed = text.trim();
  const word = SANDBOX_OUTCOMES.find((one) => one === trimmed.toLowerCase());
  if (word) return { kind: 'word', word };
  const reply = /^[245]\d\d(?:$|[ -])/.test(trimmed) ? parseReply(trimmed) : undefined;
  return reply ? { kind: 'reply', reply } : undefined;
}

/** Returns the simulation for one recipient; `asked` is the value of X-Sandbox-Outcome, if any. */
export function simulatedOutcome(recipient: string, requested: string | undefined): SimulatedOutcome {
  const override = requested === undefined ? undefined : parseSandboxOutcome(requested);
  if (override) return override;
  const local = recipient.slice(0, recipient.lastIndexOf('@')).split('+', 1)[0]!.toLowerCase();
  const word = SANDBOX_OUTCOMES.find((one) => one === local) ?? 'delivered';
  return { kind: 'word', word };
}

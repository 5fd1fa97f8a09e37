/**
 * Finds the command of its session at which the reporting server was refused. Postfix and Exim write it into the readable text about a
 * recipient, next to the reply or on the line before it, and never into the fields of the report.
 */
import type { ReportedRecipient, ReportedStage } from './report-types.ts';

const STAGES: readonly [stage: ReportedStage, pattern: RegExp][] = [
  ['dot', /(?:in reply to|after) (?:the )?(?:end of data|end of message|data\b|pipelined end of data)|\(data\b/i],
  ['mail', /(?:in reply to|after) (?:pipelined )?mail from/i],
  ['rcpt', /(?:in reply to|after) (?:pipelined )?rcpt to/i],
  [
    'ehlo',
    /refused to talk to me|in reply to (?:ehlo|helo)|after (?:ehlo|helo|initial connection)|while receiving the initial server greeting/i,
  ],
];

/** Returns the stage that a text names, in the wording of Postfix and Exim. */
export function stageIn(text: string): ReportedStage | undefined {
  return STAGES.find(([, pattern]) => pattern.test(text))?.[0];
}

/** Returns the paragraphs of a text, in lower case. */
function paragraphsOf(lines: readonly string[]): string[] {
  const paragraphs: string[][] = [[]];
  for (const line of lines) {
    if (line.trim() === '') paragraphs.push([]);
    else paragraphs.at(-1)!.push(line.trim());
  }
  return paragraphs.map((one) => one.join(' ').toLowerCase());
}

/** Adds to each recipient the stage that the paragraphs with its address name, or the entire text if it is the only recipient. */
export function withStages(recipients: readonly ReportedRecipient[], lines: readonly string[]): ReportedRecipient[] {
  const paragraphs = paragraphsOf(lines);
  const anywhere = stageIn(paragraphs.join('\n'));
  if (anywhere === undefined) return [...recipients];
  return recipients.map((recipient) => {
    const addresses = [recipient.finalRecipient, recipient.originalRecipient].flatMap(
      (one) => one?.toLowerCase() ?? [],
    );
    const about = paragraphs.filter((paragraph) => addresses.some((one) => paragraph.includes(one)));
    const stage = about.map(stageIn).find((one) => one !== undefined);
    const only = stage === undefined && recipients.length === 1 ? anywhere : stage;
    return only === undefined ? recipient : { ...recipient, stage: only };
  });
}

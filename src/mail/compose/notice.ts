/**
 * Renders a notice as the text and the html of an email, with the same content. Times are in the time zone of the account, which each of them
 * names. The html uses tables and inline styles, as email clients require, and refers to no remote content.
 */
import type { FactValue, NoticePart, OperatorNotice } from '../../base/notice.ts';
import { escapeHtml } from '../html/escape.ts';

export interface NoticeFrame {
  /** Name of the account, or of the service. */
  sender: string;
  /** IANA name of the time zone. */
  timeZone: string;
  /** Content-ID of the logo, without angle brackets; undefined if there is none. */
  logoId?: string | undefined;
  /** Why the reader receives the notice. */
  footer: string;
  /** Where the reader changes that. */
  link?: { text: string; url: string } | undefined;
}

export function renderNotice(
  { subject, parts }: Pick<OperatorNotice, 'subject' | 'parts'>,
  frame: NoticeFrame,
): { text: string; html: string } {
  const { footer, link } = frame;
  const footerLines = [footer, ...(link === undefined ? [] : [`${link.text}: ${link.url}`])];
  return {
    text: `${[...parts.map((part) => partText(part, frame.timeZone)), footerLines.join('\n')].join('\n\n')}\n`,
    html: page(subject, parts.map((part) => partHtml(part, frame.timeZone)).join('\n'), frame),
  };
}

function formatIn(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-GB', {
    timeZone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'shortOffset',
  });
}

/**
 * Formats a time as `2026-11-28 14:05:09 UTC`, or `2026-11-28 15:05:09 Europe/Berlin (GMT+1)`. If this node does not know the time zone,
 * because another node has newer ones, the time is in UTC.
 */
export function timeText(atMs: number, timeZone: string): string {
  let format: Intl.DateTimeFormat;
  try {
    format = formatIn(timeZone);
  } catch (error) {
    if (!(error instanceof RangeError) || timeZone === 'UTC') throw error;
    return timeText(atMs, 'UTC');
  }
  const parts = Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const { year, month, day, hour, minute, second, timeZoneName } = parts;
  const zone = timeZone === 'UTC' ? 'UTC' : `${timeZone} (${timeZoneName})`;
  return `${year}-${month}-${day} ${hour}:${minute}:${second} ${zone}`;
}

function valueText(value: FactValue, timeZone: string): string {
  if (typeof value === 'string') return value;
  const time = timeText(value.atMs, timeZone);
  return value.note === undefined ? time : `${time}; ${value.note}`;
}

function partText(part: NoticePart, timeZone: string): string {
  if (typeof part === 'string') return part;
  if ('code' in part) return part.code.join('\n');
  const width = Math.max(...part.facts.map(([label]) => label.length)) + 2;
  return part.facts.map(([label, value]) => `${label}:`.padEnd(width) + valueText(value, timeZone)).join('\n');
}

const FONT = "font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:15px;line-height:1.5";
const MONO =
  'font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px;overflow-wrap:anywhere;word-break:break-word';
const LABEL = `${FONT};color:#5b6472;padding:2px 16px 2px 0;vertical-align:top;white-space:nowrap`;
const VALUE = `${FONT};padding:2px 0;vertical-align:top;overflow-wrap:anywhere;word-break:break-word`;

function partHtml(part: NoticePart, timeZone: string): string {
  if (typeof part === 'string') return `<p style="margin:0 0 16px">${escapeHtml(part)}</p>`;
  if ('code' in part) return `<p style="margin:0 0 16px;${MONO}">${part.code.map(escapeHtml).join('<br>')}</p>`;
  const rows = part.facts.map(
    ([label, value]) =>
      `<tr><td style="${LABEL}">${escapeHtml(label)}</td><td style="${VALUE}">${escapeHtml(valueText(value, timeZone))}</td></tr>`,
  );
  return `<table role="presentation" cellpadding="0" cellspacing="0" style="margin:0 0 16px">${rows.join('')}</table>`;
}

function page(subject: string, content: string, { sender, logoId, footer, link }: NoticeFrame): string {
  const name = escapeHtml(sender);
  const logo =
    logoId === undefined
      ? ''
      : `<img src="cid:${escapeHtml(logoId)}" alt="" height="40" style="display:block;height:40px;width:auto;max-width:240px;margin:0 0 8px">`;
  const change =
    link === undefined
      ? ''
      : `<br><a href="${escapeHtml(link.url)}" style="color:#5b6472">${escapeHtml(link.text)}</a>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(subject)}</title>
</head>
<body style="margin:0;padding:24px 16px;background:#f5f6f8;color:#1a1f29;${FONT}">
<table role="presentation" align="center" width="100%" cellpadding="0" cellspacing="0" style="max-width:600px;margin:0 auto;background:#ffffff;border:1px solid #e2e5ea;border-radius:8px">
<tr><td style="padding:24px;${FONT}">
${logo}<p style="margin:0 0 20px;color:#5b6472">${name}</p>
<h1 style="margin:0 0 16px;font-size:20px;line-height:1.3;overflow-wrap:anywhere">${escapeHtml(subject)}</h1>
${content}
<p style="margin:24px 0 0;padding:16px 0 0;border-top:1px solid #e2e5ea;color:#5b6472;font-size:13px">${escapeHtml(footer)}${change}</p>
</td></tr>
</table>
</body>
</html>
`;
}

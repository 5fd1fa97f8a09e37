/**
 * Whether a request for a tracked link or picture comes from a bot rather than from the recipient: proxies that fetch
 * pictures when the mail arrives or is shown, scanners, previews, prefetching browsers. A guess from what the request says
 * of itself; scanners that pass for browsers are recognised by their time (engagement-store.ts). What is taken for
 * a bot is marked, never dropped.
 */
import type { IncomingHttpHeaders } from 'node:http';

const MAX_AGENT_LENGTH = 200;

const BOTS =
  /GoogleImageProxy|YahooMailProxy|\bbot\b|bot[/;]|crawl|spider|slurp|scan|preview|proxy|monitor|fetch|headless|proofpoint|barracuda|mimecast|symantec|trendmicro|trend micro|cisco|ironport|forcepoint|sophos|fortinet|safelinks|facebookexternalhit|whatsapp|telegram|slack-|curl\/|wget\/|python|go-http-client|java\/|okhttp|libwww|apache-httpclient/i;

/** Apple Mail's privacy proxy shows itself as this and nothing more. */
const BARE = /^Mozilla\/\d(?:\.\d)?$/;

const PURPOSES = ['purpose', 'sec-purpose', 'x-purpose', 'x-moz'];

/** HEAD is what scanners look with; a request without User-Agent is not a person's mail program. */
export function isBot(request: { method: string; headers: IncomingHttpHeaders }): boolean {
  const agent = request.headers['user-agent'] ?? '';
  if (request.method === 'HEAD' || agent === '' || BARE.test(agent) || BOTS.test(agent)) return true;
  return PURPOSES.some((name) => /prefetch|preview|prerender/i.test(String(request.headers[name] ?? '')));
}

/** As it is kept in events: bounded, printable. */
export function shownAgent(headers: IncomingHttpHeaders): string {
  return (headers['user-agent'] ?? '').slice(0, MAX_AGENT_LENGTH).replace(/[^\x20-\x7e]/g, '?');
}

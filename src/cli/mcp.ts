/**
 * Implements `postrider mcp`: connects an agent that speaks the Model Context Protocol over stdin and stdout to `POST /mcp` of a service.
 * Each line is one JSON-RPC message in both directions, and nothing else is written to stdout. Headers of the current revision are taken
 * from the message; a session id that the service assigns is repeated. It ends when stdin ends and all replies are written.
 */
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { type ApiOptions, type ApiTarget, apiTarget } from './api-client.ts';
import type { CommandCall, CommandOutcome } from './command.ts';
import { networkError } from './network-error.ts';

interface McpOptions extends ApiOptions {
  read?: boolean;
}

/** Time limit for a tool call; waiting for sandbox mail takes up to 50 s. */
const TIMEOUT_MS = 90_000;
const INTERNAL_ERROR = -32603;
const PARSE_ERROR = -32700;
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';

interface Message {
  id?: unknown;
  method?: unknown;
  params?: { name?: unknown; _meta?: Record<string, unknown>; protocolVersion?: unknown };
}

/** Returns a header value, encoded in Base64 if it is not plain ASCII. */
function headerValue(text: string): string {
  const isPlain = /^[\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?$/.test(text) && !text.startsWith('=?base64?');
  return isPlain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}

interface Session {
  id: string | undefined;
  version: string | undefined;
}

function headersOf({ apiKey }: ApiTarget, message: Message, session: Session): Record<string, string> {
  const headers: Record<string, string> = {
    Authorization: `Bearer ${apiKey}`,
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
  };
  const { method, params } = message;
  const named = params?._meta?.[VERSION_KEY];
  const version = typeof named === 'string' ? named : session.version;
  if (version !== undefined && method !== 'initialize') headers['MCP-Protocol-Version'] = version;
  if (session.id !== undefined) headers['Mcp-Session-Id'] = session.id;
  if (typeof named !== 'string') return headers;
  if (typeof method === 'string') headers['Mcp-Method'] = headerValue(method);
  if (typeof params?.name === 'string') headers['Mcp-Name'] = headerValue(params.name);
  return headers;
}

function errorLine(id: unknown, code: number, message: string): string {
  return JSON.stringify({ jsonrpc: '2.0', id: id ?? null, error: { code, message } });
}

/** Returns the JSON of a response on one line, with the id of the request if the service did not read it; undefined if it is not JSON. */
function lineOf(text: string, id: unknown): string | undefined {
  try {
    const reply = JSON.parse(text) as { jsonrpc?: unknown; id?: unknown };
    if (reply.jsonrpc !== '2.0') return undefined;
    return JSON.stringify(reply.id === null && id !== undefined ? { ...reply, id } : reply);
  } catch {
    return undefined;
  }
}

/** Sends one message; returns the line to write, or undefined for a notification. */
async function relay(url: string, target: ApiTarget, line: string, session: Session): Promise<string | undefined> {
  let message: Message;
  try {
    message = JSON.parse(line) as Message;
  } catch (error) {
    return errorLine(null, PARSE_ERROR, `Parse error: ${(error as Error).message}`);
  }
  const { id, method } = message;
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: headersOf(target, message, session),
      body: line,
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    if (method === 'initialize' && response.ok) {
      session.id = response.headers.get('mcp-session-id') ?? undefined;
      session.version = (JSON.parse(text) as { result?: { protocolVersion?: string } }).result?.protocolVersion;
    }
    if (id === undefined) return undefined;
    if (response.status === 404 && lineOf(text, id) === undefined)
      return errorLine(
        id,
        INTERNAL_ERROR,
        `${url} does not exist: start the service with POSTRIDER_MCP=read or POSTRIDER_MCP=on`,
      );
    return (
      lineOf(text, id) ??
      errorLine(id, INTERNAL_ERROR, `${url} returned ${response.status} without a JSON-RPC response; check --url`)
    );
  } catch (error) {
    return id === undefined ? undefined : errorLine(id, INTERNAL_ERROR, networkError(url, error));
  }
}

/** Connects stdin and stdout to the endpoint; ends with stdin. */
export async function mcp(call: CommandCall<McpOptions>, input: Readable = process.stdin): Promise<CommandOutcome> {
  const target = apiTarget(call);
  const url = `${target.base}/mcp${call.options.read ? '?tools=read' : ''}`;
  const session: Session = { id: undefined, version: undefined };
  const pending = new Set<Promise<void>>();
  const write = async (line: string): Promise<void> => {
    const reply = await relay(url, target, line, session);
    if (reply !== undefined) call.streams.out(`${reply}\n`);
  };
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line.trim() === '') continue;
    const writing = write(line);
    // The session of earlier revisions starts with its first reply.
    if (line.includes('"initialize"')) await writing;
    pending.add(writing);
    writing.finally(() => pending.delete(writing));
  }
  await Promise.all(pending);
  return {};
}

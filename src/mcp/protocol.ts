/**
 * The Model Context Protocol over HTTP: one JSON-RPC 2.0 message per POST. The current revision (2026-07-28) is stateless: each request
 * names its version and its client, and repeats method and tool in headers. Clients of the two revisions before it call `initialize` first;
 * there are no sessions. Pure functions.
 */
import type { IncomingHttpHeaders } from 'node:http';

const CURRENT = '2026-07-28';
const EARLIER: readonly string[] = ['2025-11-25', '2025-06-18'];
/** Newest first. */
export const SUPPORTED: readonly string[] = [CURRENT, ...EARLIER];

/** Error codes of JSON-RPC 2.0 and, below -32000, of the protocol. */
export const CODES = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  refused: -32000,
  headerMismatch: -32020,
  unsupportedVersion: -32022,
} as const;

export interface RpcError {
  code: number;
  message: string;
  data?: unknown;
}

export type RpcId = string | number;

export interface Client {
  name: string;
  version: string;
  /** Whether it can ask its user to fill in a form. */
  canAsk: boolean;
}

export interface RpcCall {
  kind: 'call';
  /** Whether the request follows the current revision. */
  isCurrent: boolean;
  id: RpcId;
  method: string;
  params: Readonly<Record<string, unknown>>;
  client: Client;
}

export type Incoming = RpcCall | { kind: 'notification' } | RpcRefusal;

export interface RpcRefusal {
  kind: 'refusal';
  status: number;
  id: RpcId | null;
  error: RpcError;
}

const META = 'io.modelcontextprotocol/';

type Members = Readonly<Record<string, unknown>>;

export function members(value: unknown): Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

function refusal(id: RpcId | null, code: number, message: string, data?: unknown): RpcRefusal {
  return { kind: 'refusal', status: 400, id, error: { code, message, ...(data !== undefined && { data }) } };
}

export function unsupportedVersion(id: RpcId | null, requested: string): RpcRefusal {
  return refusal(id, CODES.unsupportedVersion, 'Unsupported protocol version', { supported: SUPPORTED, requested });
}

const NOT_PRINTABLE = /[^\x20-\x7E\u00A0-\uD7FF\uF900-\uFFFD]/g;
const MAX_NAME_LENGTH = 100;

/** Returns a client's own name, made safe for logs and pages. */
export function clientName(value: unknown): string {
  return typeof value === 'string' ? value.replace(NOT_PRINTABLE, ' ').trim().slice(0, MAX_NAME_LENGTH) : '';
}

/** Returns the client of a request. A client of an earlier revision names itself in `initialize` only; its session id repeats that name. */
function clientOf(meta: Members, headers: IncomingHttpHeaders): Client {
  const info = members(meta[`${META}clientInfo`]);
  const { name, version } = typeof info.name === 'string' ? info : members(readSession(headers['mcp-session-id']));
  const userAgent = clientName(headers['user-agent']);
  const elicitation = members(meta[`${META}clientCapabilities`]).elicitation;
  const modes = Object.keys(members(elicitation));
  return {
    name: clientName(name) || userAgent || 'unknown client',
    version: clientName(version),
    canAsk: elicitation !== undefined && (modes.length === 0 || modes.includes('form')),
  };
}

/** Returns the session id that carries the client's name for later requests. It is no credential and the server keeps no session. */
export function sessionOf(clientInfo: unknown): string {
  const { name, version } = members(clientInfo);
  return Buffer.from(JSON.stringify({ name: clientName(name), version: clientName(version) })).toString('base64url');
}

function readSession(value: unknown): unknown {
  if (typeof value !== 'string' || value.length > 1_000) return undefined;
  try {
    return JSON.parse(Buffer.from(value, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}

const ENCODED = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/;

/** Decodes a header that may have the Base64 form for values that are not plain ASCII. */
function headerText(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const [, encoded] = ENCODED.exec(value) ?? [];
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8');
}

interface Named {
  id: RpcId;
  method: string;
  params: Members;
  meta: Members;
  headers: IncomingHttpHeaders;
}

/** Returns why a request of the current revision is refused: its headers, version or metadata. */
function currentRefusal({ id, method, params, meta, headers }: Named): RpcRefusal | undefined {
  const version = headers['mcp-protocol-version'];
  const named = meta[`${META}protocolVersion`];
  const mismatch = (message: string) => refusal(id, CODES.headerMismatch, `Header mismatch: ${message}`);
  if (version === undefined) return mismatch('MCP-Protocol-Version is required');
  if (named !== undefined && named !== version)
    return mismatch(`MCP-Protocol-Version is '${version}', but _meta has '${named}'`);
  if (version !== CURRENT && !EARLIER.includes(String(version))) return unsupportedVersion(id, String(version));
  if (named === undefined) return refusal(id, CODES.invalidParams, `params._meta must have '${META}protocolVersion'`);
  if (typeof meta[`${META}clientCapabilities`] !== 'object' || meta[`${META}clientCapabilities`] === null)
    return refusal(id, CODES.invalidParams, `params._meta must have '${META}clientCapabilities', an object`);
  if (headers['mcp-method'] === undefined) return mismatch('Mcp-Method is required');
  if (headers['mcp-method'] !== method)
    return mismatch(`Mcp-Method is '${headers['mcp-method']}', but the body has '${method}'`);
  if (method !== 'tools/call') return undefined;
  const name = headerText(headers['mcp-name']);
  if (name === undefined) return mismatch('Mcp-Name is required for tools/call');
  return name === params.name ? undefined : mismatch(`Mcp-Name is '${name}', but the body has '${params.name}'`);
}

function isId(value: unknown): value is RpcId {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}

/** Reads one message and the headers of its request. */
export function readMessage(body: unknown, headers: IncomingHttpHeaders): Incoming {
  if (Array.isArray(body))
    return refusal(null, CODES.invalidRequest, 'Batches are not supported: send one message per request');
  const { jsonrpc, id, method, params = {} } = members(body);
  const shownId = isId(id) ? id : null;
  if (jsonrpc !== '2.0') return refusal(shownId, CODES.invalidRequest, "jsonrpc must be '2.0'");
  if (method === undefined) {
    // Clients of earlier revisions respond to requests of the server; this server never makes any.
    const isResponse = isId(id) && (members(body).result !== undefined || members(body).error !== undefined);
    return isResponse ? { kind: 'notification' } : refusal(shownId, CODES.invalidRequest, 'method is required');
  }
  if (typeof method !== 'string') return refusal(shownId, CODES.invalidRequest, 'method must be a string');
  if (typeof params !== 'object' || params === null || Array.isArray(params))
    return refusal(shownId, CODES.invalidParams, 'params must be an object');
  if (id === undefined) return { kind: 'notification' };
  if (!isId(id)) return refusal(null, CODES.invalidRequest, 'id must be a string or a number');
  const meta = members(members(params)._meta);
  const version = headers['mcp-protocol-version'];
  const isNamed = meta[`${META}protocolVersion`] !== undefined;
  const isEarlier = version === undefined || EARLIER.includes(String(version)) || method === 'initialize';
  const named = { id, method, params: members(params), meta, headers };
  const isCurrent = isNamed || !isEarlier;
  const refused = isCurrent ? currentRefusal(named) : undefined;
  if (refused !== undefined) return refused;
  return { kind: 'call', isCurrent, id, method, params: named.params, client: clientOf(meta, headers) };
}

/** Returns the version that `initialize` agrees on: the requested one if it is an earlier revision, else the newest of these. */
export function agreedVersion(requested: unknown): string {
  return EARLIER.includes(String(requested)) ? String(requested) : EARLIER[0]!;
}

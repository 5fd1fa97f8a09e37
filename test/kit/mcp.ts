/** A client of POST /mcp for tests: sends one message, in the form of the current or an earlier revision, and returns the answer. */
import { type Answer, apiClient, type JsonObject } from './api.ts';

export const CURRENT = '2026-07-28';

export interface McpOptions {
  url: string;
  key: string;
  /** Capabilities of the client. */
  capabilities?: JsonObject;
  /** Query of the URL, such as `?tools=read`. */
  query?: string;
  clientName?: string;
}

export interface Mcp {
  /** Sends a request of the current revision. */
  request(method: string, params?: JsonObject, headers?: Record<string, string | undefined>): Promise<Answer>;
  /** Calls a tool; returns the result, or the error as `{ error }`. */
  tool(name: string, args?: JsonObject, rest?: JsonObject): Promise<JsonObject>;
  /** Sends a body unchanged. */
  send(body: unknown, headers?: Record<string, string>): Promise<Answer>;
}

export function mcpClient({ url, key, capabilities = {}, query = '', clientName = 'Test Agent' }: McpOptions): Mcp {
  const api = apiClient(() => url);
  let id = 0;
  const send: Mcp['send'] = (body, headers = {}) =>
    api.call({
      method: 'POST',
      path: `/mcp${query}`,
      body,
      headers: {
        authorization: `Bearer ${key}`,
        accept: 'application/json, text/event-stream',
        connection: 'close',
        ...headers,
      },
    });
  const request: Mcp['request'] = (method, params = {}, headers = {}) => {
    id += 1;
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': CURRENT,
      'io.modelcontextprotocol/clientInfo': { name: clientName, version: '1.0' },
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    };
    const all = {
      'mcp-protocol-version': CURRENT,
      'mcp-method': method,
      ...(typeof params.name === 'string' && { 'mcp-name': params.name }),
      ...headers,
    };
    const given = Object.entries(all).filter((one): one is [string, string] => one[1] !== undefined);
    return send({ jsonrpc: '2.0', id, method, params: { _meta, ...params } }, Object.fromEntries(given));
  };
  return {
    send,
    request,
    tool: async (name, args = {}, rest = {}) => {
      const { body } = await request('tools/call', { name, arguments: args, ...rest });
      return (body.result ?? { error: body.error }) as JsonObject;
    },
  };
}

/** Defines the tools. A tool translates its arguments to calls of Postrider's API, which do all checks. */
import type { Static, TObject } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { type Failure, failure, type Result, refuse } from '../base/failure.ts';
import type { InnerAnswer, InnerCall } from '../http/inner-calls.ts';
import type { Method } from '../http/route.ts';
import type { Change, ChangeResult } from './changes.ts';
import { fits, pieceOf, type ResultOptions, SHORTEST_PIECE, shortenToFit } from './result.ts';

export interface ToolContext {
  caller: Caller;
  /** Whether only tools and actions that change nothing are offered. */
  isReadOnly: boolean;
  /** The current time in Unix ms. */
  now(): number;
  call(method: Method, path: string, rest?: Omit<InnerCall, 'method' | 'path'>): Promise<InnerAnswer>;
  /** Makes a change of the sandbox, or has a change of live data approved first. */
  change(change: Change): Promise<ChangeResult>;
  /** Returns the state of a change that was requested earlier. */
  changed(id: string): Promise<ChangeResult>;
  /** Returns why mail currently cannot be accepted; undefined if it can. */
  mailRefusal(): Failure | undefined;
}

export type ToolAnswer =
  | { ok: true; data: Record<string, unknown>; options?: ResultOptions }
  | { ok: false; failure: Failure }
  | ChangeResult;

export interface ToolDefinition<S extends TObject = TObject> {
  name: string;
  title: string;
  description: string;
  schema: S;
  /** Absent for tools that change nothing. A tool with a `readSchema` is also offered without its changes. */
  change?: { isDestructive: boolean; readSchema?: TObject };
  /** Whether the tool contacts systems other than this service. */
  isOpenWorld?: true;
  run(context: ToolContext, args: Static<S>): Promise<ToolAnswer>;
}

export function defineTool<S extends TObject>(definition: ToolDefinition<S>): ToolDefinition {
  return definition as unknown as ToolDefinition;
}

export const found = (data: Record<string, unknown>, options?: ResultOptions): ToolAnswer =>
  options === undefined ? { ok: true, data } : { ok: true, data, options };

export const invalidArgument = (message: string): { ok: false; failure: Failure } =>
  refuse(failure('INVALID_REQUEST', { message }));

/** Returns a piece of a long text with the other data of its result; `dataOf` is that of `pieceOf`. */
export function foundPiece(
  source: string,
  after: string | undefined,
  dataOf: Parameters<typeof pieceOf>[2],
  options?: ResultOptions,
): ToolAnswer {
  const data = pieceOf(source, after, dataOf, options);
  if (data === undefined) return invalidArgument('`cursor` must be the nextCursor of the previous result.');
  return found(data, options);
}

/**
 * Returns the JSON object of a successful call. If it does not fit into a result, the first one has the start of its html, and its other
 * members, shortened if they do not fit either; the next ones have only the following pieces of the html.
 */
export function objectWithHtml(response: InnerAnswer, after: string | undefined): ToolAnswer {
  if (!response.ok) return response;
  const data = response.body as Record<string, unknown>;
  const { html, ...rest } = data;
  if (typeof html !== 'string' || (after === undefined && fits(data))) return found(data);
  const dataOf = (others: Record<string, unknown>, piece: string, nextCursor: string | null) => ({
    ...others,
    html: piece,
    nextCursor,
  });
  const start = html.slice(0, SHORTEST_PIECE).toWellFormed();
  const others =
    after === undefined ? shortenToFit(rest, (shortened) => dataOf(shortened, start, String(html.length))) : {};
  return foundPiece(html, after, (piece, nextCursor) => dataOf(others, piece, nextCursor));
}

/** Returns the JSON object of a successful call. */
export function objectOf(response: InnerAnswer): ToolAnswer {
  return response.ok ? found(response.body as Record<string, unknown>) : response;
}

export type Query = NonNullable<InnerCall['query']>;

/** Reads a page of a list, as large as fits into a result. */
export async function listOf(
  context: Pick<ToolContext, 'call'>,
  path: string,
  query: Query,
  { limit = 20, pick = (item: unknown): unknown => item } = {},
): Promise<ToolAnswer> {
  let most = limit;
  for (;;) {
    const response = await context.call('GET', path, { query: { ...query, limit: most } });
    if (!response.ok) return response;
    const data = {
      items: (response.body as unknown[]).map(pick),
      nextCursor: (response.headers['X-Next-Cursor'] as string | undefined) ?? null,
    };
    if (most === 1 || fits(data)) return found(data);
    most = Math.max(1, Math.floor(Math.min(most, data.items.length) / 2));
  }
}

/** Reads all elements of a list, up to a number of pages. */
export async function listAll(
  context: Pick<ToolContext, 'call'>,
  path: string,
  { query = {}, pages = 10 }: { query?: Query; pages?: number } = {},
): Promise<Result<Record<string, unknown>[]>> {
  const all: Record<string, unknown>[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < pages; page += 1) {
    const response: InnerAnswer = await context.call('GET', path, { query: { ...query, limit: 100, cursor } });
    if (!response.ok) return response;
    all.push(...(response.body as Record<string, unknown>[]));
    cursor = response.headers['X-Next-Cursor'] as string | undefined;
    if (cursor === undefined || response.headers.Link === undefined) break;
  }
  return { ok: true, value: all };
}

export const segment = (text: string): string => encodeURIComponent(text);

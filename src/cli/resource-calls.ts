/** Implements the commands for the resources of an account (resources.ts): `postrider message list`, `postrider webhook create`. */
import { type ApiAnswer, type ApiClient, type ApiOptions, apiClient, apiTarget, refusal } from './api-client.ts';
import { type CommandCall, type CommandFunction, columns, inputName, readInput, UsageError } from './command.ts';
import { type Action, listName, type Resource, type Verb } from './resources.ts';

export interface ListOptions extends ApiOptions {
  /** Maximum number of entries to list. */
  limit: number;
}

type Row = Record<string, unknown>;

/** Maximum number of entries that the API returns at a time. */
const PAGE = 100;

const shown = (value: unknown): string => {
  if (value === null || value === undefined) return '-';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
};

/** Formats rows as aligned columns. The last column is not padded. */
function aligned(rows: readonly string[][]): string {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]!.length))) ?? [];
  return rows
    .map((row) =>
      row
        .map((text, at) => text.padEnd(widths[at]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

const isAccepted = ({ status }: ApiAnswer): boolean => status >= 200 && status < 300;

const oneOf = ({ path }: Resource, id: string): string => `${path}/${encodeURIComponent(id)}`;

async function list(resource: Resource, call: CommandCall<ListOptions>): ReturnType<CommandFunction<ListOptions>> {
  const { limit, ...options } = call.options;
  const given = options as Readonly<Record<string, unknown>>;
  const query = new URLSearchParams();
  for (const name of Object.keys(resource.filters ?? {})) {
    for (const value of [given[name] ?? []].flat()) query.append(name, String(value));
  }
  const api = apiClient(apiTarget(call));
  const rows: Row[] = [];
  let cursor: string | undefined;
  do {
    query.set('limit', String(Math.min(PAGE, limit - rows.length)));
    if (cursor !== undefined) query.set('cursor', cursor);
    const answer = await api.call({ method: 'GET', path: `${resource.path}?${query}` });
    if (!isAccepted(answer)) return refusal(answer);
    rows.push(...(answer.body as unknown as Row[]));
    cursor = answer.nextCursor;
  } while (cursor !== undefined && rows.length < limit);
  const lines = rows.map((row) => [resource.id, ...resource.shows].map((field) => shown(row[field])));
  const more = cursor === undefined ? '' : `\nThere are more. To list them, use --limit ${limit * 10}.`;
  return {
    data: { [listName(resource)]: rows, hasMore: cursor !== undefined },
    text: rows.length === 0 ? `no ${resource.plural}` : `${aligned(lines)}${more}`,
  };
}

/** Returns a response as the outcome of the command: its fields, or an error of the API. */
function outcomeOf(answer: ApiAnswer): Awaited<ReturnType<CommandFunction<ApiOptions>>> {
  if (!isAccepted(answer)) return refusal(answer);
  const { body } = answer;
  return {
    data: body,
    text: columns(Object.fromEntries(Object.entries(body).map(([name, value]) => [name, shown(value)]))),
  };
}

/** Returns the JSON object in a file, or on stdin for `-`, as text. */
function bodyIn(file: string): string {
  // Some editors on Windows start a file with a byte order mark, which is not JSON.
  const text = readInput(file, 'UNREADABLE').replace(/^\uFEFF/, '');
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    const reason = (error as Error).message.replaceAll(/\s+/g, ' ');
    throw new UsageError(`${inputName(file)} is not valid JSON: ${reason}`);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new UsageError(`${inputName(file)} is not a JSON object`);
  }
  return text;
}

const CALLS: Record<Exclude<Verb, 'list'>, (resource: Resource, args: string[]) => Parameters<ApiClient['call']>[0]> = {
  show: (resource, [id = '']) => ({ method: 'GET', path: oneOf(resource, id) }),
  create: (resource, [file = '']) => ({ method: 'POST', path: resource.path, body: bodyIn(file) }),
  set: (resource, [id = '', file = '']) => ({ method: 'PATCH', path: oneOf(resource, id), body: bodyIn(file) }),
  delete: (resource, [id = '']) => ({ method: 'DELETE', path: oneOf(resource, id) }),
};

/** Returns the function of a command that every resource can have. */
export function resourceCommand(resource: Resource, verb: Verb): CommandFunction<ListOptions> {
  if (verb === 'list') return (call) => list(resource, call);
  return async (call) => outcomeOf(await apiClient(apiTarget(call)).call(CALLS[verb](resource, call.args)));
}

/** Returns the function of a command that only some resources have. Some report in `success` whether what they tested works. */
export function actionCommand(resource: Resource, { method, path }: Action): CommandFunction<ApiOptions> {
  return async (call) => {
    const [id = ''] = call.args;
    const api = apiClient(apiTarget(call));
    const answer = await api.call({ method, path: `${oneOf(resource, id)}${path}`, body: '{}' });
    const outcome = outcomeOf(answer);
    const { success, error, responseStatus } = answer.body;
    if (!isAccepted(answer) || success !== false) return outcome;
    const reason = error ?? `the endpoint returned ${shown(responseStatus)}`;
    return { ...outcome, text: `the test failed: ${reason}\n${outcome.text}`, exitCode: 1 };
  };
}

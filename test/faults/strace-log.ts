/**
 * Reads the output of strace -f, and checks the order of writes and responses. Lines are in the order in which calls started and ended; a
 * call interrupted by another thread has a line for each.
 */

export interface SystemCall {
  name: string;
  /** Arguments as strace prints them, with the paths of descriptors (-y). */
  args: string;
  /** The return value as printed; undefined if the call never returned. */
  result: string | undefined;
  /** Numbers of the lines at which it started and ended. */
  begin: number;
  end: number;
}

const WHOLE = /^(\d+)\s+(\w+)\((.*)\)\s+= (.*)$/;
const UNFINISHED = /^(\d+)\s+(\w+)\((.*) <unfinished \.\.\.>$/;
const RESUMED = /^(\d+)\s+<\.\.\. (\w+) resumed>(.*)\)\s+= (.*)$/;

export function parseTrace(text: string): SystemCall[] {
  const calls: SystemCall[] = [];
  const open = new Map<string, SystemCall>();
  text.split('\n').forEach((line, number) => {
    const resumed = RESUMED.exec(line);
    if (resumed) {
      const [, pid, , rest, result] = resumed as unknown as [string, string, string, string, string];
      const call = open.get(pid);
      open.delete(pid);
      if (call) Object.assign(call, { args: call.args + rest, result, end: number });
      return;
    }
    const unfinished = UNFINISHED.exec(line);
    if (unfinished) {
      const [, pid, name, args] = unfinished as unknown as [string, string, string, string];
      const call = { name, args, result: undefined, begin: number, end: Number.POSITIVE_INFINITY };
      open.set(pid, call);
      calls.push(call);
      return;
    }
    const whole = WHOLE.exec(line);
    if (whole) {
      const [, , name, args, result] = whole as unknown as [string, string, string, string, string];
      calls.push({ name, args, result, begin: number, end: number });
    }
  });
  return calls;
}

const isWrite = (call: SystemCall): boolean => /^(p?writev?(64)?|send(to|msg))$/.test(call.name);
const isSync = (call: SystemCall): boolean => /^f(data)?sync$/.test(call.name);
const on = (call: SystemCall, file: RegExp): boolean => file.test(/^\d+<([^>]*)>/.exec(call.args)?.[1] ?? '');

/**
 * Returns undefined if the response to the request with the marker started only after a successful sync of the write-ahead log that started
 * after the last byte of the message was written; otherwise what was wrong.
 */
export function orderFault(calls: SystemCall[], marker: string): string | undefined {
  const request = calls.find((call) => /^(read|recvfrom|recvmsg|readv)$/.test(call.name) && call.args.includes(marker));
  if (!request) return 'the request was not seen';
  const answer = calls.find(
    (call) => isWrite(call) && call.begin > request.begin && call.args.includes('HTTP/1.1 202'),
  );
  if (!answer) return 'no 202 was seen';
  const before = calls.filter((call) => call.begin > request.begin && call.begin < answer.begin);
  const writes = before.filter((call) => isWrite(call) && on(call, /-wal$/));
  if (!writes.some((call) => call.args.includes(marker)))
    return 'the message was not written to the log before the 202';
  const written = Math.max(...writes.map((call) => call.end));
  const syncs = before.filter((call) => isSync(call) && on(call, /-wal$/) && call.begin > written);
  if (syncs.length === 0) return 'no sync of the log began after the message was written';
  if (!syncs.some((call) => call.end < answer.begin && call.result === '0'))
    return 'the sync had not succeeded at the 202';
  return undefined;
}

/**
 * Returns undefined if the blob of the request was synced, renamed, and its directory synced, in this order, before the row that names it
 * was written to the log; otherwise what was wrong.
 */
export function blobOrderFault(calls: SystemCall[], marker: string): string | undefined {
  const request = calls.find((call) => /^(read|recvfrom|recvmsg|readv)$/.test(call.name) && call.args.includes(marker));
  if (!request) return 'the request was not seen';
  const later = calls.filter((call) => call.begin > request.begin);
  const rename = later.find((call) => /^rename/.test(call.name) && /\/blobs\//.test(call.args));
  if (!rename) return 'no blob was renamed to its place';
  const [from = '', to = ''] = [...rename.args.matchAll(/"([^"]+)"/g)].map((match) => match[1]!);
  const fileSync = later.find((call) => isSync(call) && call.args.includes(`<${from}>`) && call.end < rename.begin);
  if (fileSync?.result !== '0') return 'the file was not synced before it was renamed';
  const folder = to.slice(0, to.lastIndexOf('/'));
  const folderSync = later.find((call) => isSync(call) && call.args.includes(`<${folder}>`) && call.begin > rename.end);
  if (folderSync?.result !== '0') return 'its directory was not synced';
  const row = later.find((call) => isWrite(call) && on(call, /-wal$/) && call.args.includes(marker));
  if (!row) return 'its row was not seen';
  return row.begin > folderSync.end ? undefined : 'the row was written before its blob was safe';
}

/**
 * An HTTP server instead of an S3-compatible store, for rare responses of a real one. A script answers each request; normal behavior is
 * tested with a real store.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { Clock } from '../../src/base/clock.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openS3Blobs, type S3Blobs } from '../../src/storage/blobs/s3.ts';

export interface ScriptedRequest {
  method: string;
  /** Path and query. */
  target: string;
  headers: IncomingMessage['headers'];
  body: Buffer;
  /** Counts from 1. */
  number: number;
}

export interface ScriptedS3 {
  blobs: S3Blobs;
  requests: ScriptedRequest[];
  close(): Promise<void>;
}

export const SECRET = 'hunter2-is-secret';

export async function scriptedS3(
  answer: (request: ScriptedRequest, response: ServerResponse) => void,
  options: { clock?: Clock; answerMs?: number } = {},
): Promise<ScriptedS3> {
  const requests: ScriptedRequest[] = [];
  const server = createServer(async (incoming, response) => {
    const { method = '', url = '', headers } = incoming;
    const body = await buffer(incoming);
    const request = { method, target: url, headers, body, number: requests.length + 1 };
    requests.push(request);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const blobs = openS3Blobs({
    location: { endpoint: `http://127.0.0.1:${port}`, region: 'eu-1', bucket: 'box', prefix: 'a', style: 'path' },
    credentials: { accessKeyId: 'AKIATEST', secretAccessKey: SECRET },
    clock: options.clock ?? systemClock,
    ...(options.answerMs === undefined ? {} : { answerMs: options.answerMs }),
  });
  return {
    blobs,
    requests,
    close: async () => {
      await blobs.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Sends an error in the format of S3. */
export function refuse(response: ServerResponse, status: number, code: string, message = 'Because.'): void {
  response.writeHead(status, { 'content-type': 'application/xml' });
  response.end(`<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>${message}</Message></Error>`);
}

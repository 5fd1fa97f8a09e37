/**
 * The upload flow and POST /send behind the real HTTP shell, on a real database and real files, with a clock that stands still: without
 * keys, delivery and processes. Every account may send from verified.example, up to the approved size.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { type AttachmentRouteOptions, attachmentRoutes } from '../../src/api/attachments.ts';
import { createSendRoutes } from '../../src/api/send.ts';
import { createUploadUrls } from '../../src/attachments/attachments.ts';
import { createTrackingLinks, createUnsubscribeLinks } from '../../src/engagement/engagement.ts';
import { createInFlightKeys } from '../../src/idempotency/idempotency.ts';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import type { DeliveryJob } from '../../src/messages/messages.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { createRender, createTemplateSource } from '../../src/templates/templates.ts';
import { testAddressHash } from './address-hash.ts';
import type { Answer, JsonObject } from './api.ts';
import { fakeClock } from './fake-clock.ts';
import { featureApp } from './feature-app.ts';
import { type ManifestEntry, manifestEntry, type Put, type PutAnswer, put } from './upload.ts';

export interface UploadAppOptions
  extends Partial<Pick<AttachmentRouteOptions, 'rate' | 'limits' | 'maximumUnsentBytes'>> {
  /** Wraps the blobs. */
  around?(blobs: Blobs): Blobs;
}

export async function uploadApp(options: UploadAppOptions = {}) {
  const clock = fakeClock();
  const secretKey = randomBytes(32);
  const inFlight = createInFlightKeys();
  const offered: DeliveryJob[] = [];
  /** End times of the leases of dispatched messages. */
  const leases: number[] = [];
  let approvedEmailBytes = 40_000_000;
  let blobs!: Blobs;
  let folder = '';
  const { around, ...more } = options;
  const app = await featureApp(
    ({ database, folder: data }) => {
      folder = path.join(data, 'blobs');
      blobs = openDiskBlobs(folder);
      if (around) blobs = around(blobs);
      const place = { secretKey, baseUrl: 'http://127.0.0.1:9' };
      const shared = { database, blobs, clock, inFlight };
      return [
        ...attachmentRoutes({ ...shared, ...more, urls: createUploadUrls(place), uploadTtlSeconds: 900 }),
        ...createSendRoutes({
          ...shared,
          addressHash: testAddressHash,
          directDispatch: {
            hasCapacity: () => true,
            dispatch: (jobs, leaseUntilMs) => {
              offered.push(...jobs);
              leases.push(leaseUntilMs);
            },
          },
          isVerified: async (_account, domain) => domain === 'verified.example',
          render: createRender(htmlToText),
          htmlToText,
          templates: createTemplateSource({ database, clock }),
          unsubscribeLinks: createUnsubscribeLinks(place),
          trackingLinks: createTrackingLinks(place),
        }),
      ];
    },
    () => ({ approvedEmailBytes }),
  );
  const keyHeader = (key?: string): Record<string, string> => (key === undefined ? {} : { 'Idempotency-Key': key });
  return {
    ...app,
    clock,
    inFlight,
    offered,
    leases,
    blobs,
    approve: (bytes: number): void => {
      approvedEmailBytes = bytes;
    },
    /** Returns the names of all files below the blob folder, complete or not. */
    stored: (): string[] =>
      readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((one) => (one.isFile() ? [one.name] : [])),
    /** Returns the path of a stored file with this name. */
    placeOf: (name: string): string =>
      path.join(
        folder,
        readdirSync(folder, { recursive: true, encoding: 'utf8' }).find((one) => path.basename(one) === name)!,
      ),
    register: (account: string, entries: unknown, key?: string, mode?: 'live' | 'sandbox'): Promise<Answer> =>
      app.api(account, mode).post('/attachments', { attachments: entries }, keyHeader(key)),
    state: (account: string, id: string): Promise<Answer> => app.api(account).get(`/attachments/${id}`),
    put: (one: Put): Promise<PutAnswer> => put({ port: app.port, ...one }),
    send: (account: string, submissionId: string, more: JsonObject = {}, key?: string): Promise<Answer> =>
      app.api(account).post('/send', { ...LARGE, attachmentSubmissionId: submissionId, ...more }, keyHeader(key)),
    /** Registers and uploads these bytes; returns the submission. */
    uploaded: async (account: string, files: Buffer[], key?: string): Promise<JsonObject> => {
      const entries: ManifestEntry[] = files.map((bytes, i) => manifestEntry(bytes, { name: `file-${i}.bin` }));
      const { body } = await app.api(account).post('/attachments', { attachments: entries }, keyHeader(key));
      for (const [i, { uploadUrl, requiredHeaders }] of body.attachmentUploads.entries()) {
        const answer = await put({ port: app.port, url: uploadUrl, headers: requiredHeaders, body: files[i]! });
        if (answer.status !== 200) throw new Error(answer.text);
      }
      return body;
    },
  };
}

/** A body of POST /send without its submission. */
export const LARGE = { from: 'shop@verified.example', to: 'ann@example.com', subject: 'Files', text: 'See the files.' };

export type UploadApp = Awaited<ReturnType<typeof uploadApp>>;

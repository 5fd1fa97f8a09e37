/**
 * HTTP routes of the upload flow: POST /attachments, GET /attachments/{submissionId}, and the PUT to an upload URL, which requires no key.
 */
import { type Caller, MAXIMUM_EMAIL_BYTES, ownerOf } from '../accounts/accounts.ts';
import { manifestSchema, readManifest } from '../attachments/manifest.ts';
import { batchState, type RegisterDependencies, registerManifest } from '../attachments/register.ts';
import { createUpload, UPLOAD_PATH, type UploadDependencies } from '../attachments/upload.ts';
import { failure, refuse } from '../base/failure.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, mapOf, named, oneOf } from '../http/validate.ts';
import { type InFlightKeys, readKey } from '../idempotency/idempotency.ts';

const ENDPOINT = '/attachments';
const REPEATED = { 'Idempotent-Replayed': 'true' };

export type AttachmentRouteOptions = RegisterDependencies & UploadDependencies & { inFlight: InFlightKeys };

const unixMs = Type.Integer({ description: 'Unix time in milliseconds at which the upload URLs expire.' });

const submissionSchema = named('AttachmentSubmission', {
  attachmentSubmissionId: Type.String({ description: 'Pass this id to POST /send after you have uploaded all files.' }),
  expiresAt: unixMs,
  attachmentUploads: Type.Array(
    closed({
      uploadUrl: Type.String({ description: 'Upload the raw bytes to this URL with PUT before expiresAt.' }),
      requiredHeaders: mapOf(Type.String(), {
        maxProperties: 20,
        description: 'Headers to send unchanged with the upload.',
      }),
    }),
    { description: 'One entry per item of the manifest, in the same order.' },
  ),
  maximumFinalMimeBytes: Type.Integer({
    description: 'Maximum size of any email. The approved size of the account can be lower.',
  }),
});

const stateSchema = named('AttachmentSubmissionState', {
  attachmentSubmissionId: Type.String(),
  expiresAt: unixMs,
  status: oneOf(['open', 'used']),
  files: Type.Array(closed({ name: Type.String(), sizeBytes: Type.Integer(), status: oneOf(['waiting', 'uploaded']) })),
});

export function attachmentRoutes(options: AttachmentRouteOptions): RouteDefinition<Caller>[] {
  const upload = createUpload(options);
  return [
    defineRoute({
      method: 'POST',
      path: ENDPOINT,
      tag: 'attachments',
      access: { auth: 'key', scope: 'send' },
      operationId: 'registerAttachments',
      summary: 'Register files for an email above 2 MB',
      description:
        'Returns an upload URL for every file. The same Idempotency-Key with the same manifest returns the same submission, with new URLs once the old ones have expired.',
      idempotencyKey: true,
      body: { schema: manifestSchema, rawFirst: true },
      response: { status: 201, schema: submissionSchema },
      refusals: [
        'UNSUPPORTED_FILE_TYPE',
        'DUPLICATE_REQUEST_IN_PROGRESS',
        'EMAIL_SIZE_EXCEEDED',
        'IDEMPOTENCY_KEY_REUSED',
        'LIMIT_REACHED',
      ],
      load: { acceptsMail: true },
      handle: (request: RouteRequest<Caller, unknown, unknown>) => register(options, request),
    }),
    defineRoute({
      method: 'GET',
      path: `${ENDPOINT}/:submissionId`,
      tag: 'attachments',
      access: { auth: 'key', scope: 'send' },
      operationId: 'getAttachmentSubmission',
      summary: 'Get the upload status of a submission',
      description:
        'Returns for each file whether it is waiting or uploaded. After an interruption, upload the files that are waiting.',
      response: { status: 200, schema: stateSchema },
      refusals: ['SUBMISSION_NOT_FOUND'],
      handle: async ({ caller, params }: RouteRequest<Caller, unknown, unknown>) => {
        const key = { ...ownerOf({ caller }), id: params.submissionId ?? '' };
        const state = await batchState(options, key);
        return state.ok ? { ok: true, body: state.value } : state;
      },
    }),
    defineRoute({
      method: 'PUT',
      path: `${UPLOAD_PATH}:token`,
      tag: 'attachments',
      access: { auth: 'none' },
      operationId: 'uploadFile',
      summary: 'Upload the raw bytes of one file',
      description: 'The URL is an uploadUrl from POST /attachments. Send its requiredHeaders unchanged.',
      body: { type: 'stream' },
      ownQuery: true,
      response: {
        status: 200,
        contentType: 'text/plain',
        description: 'The file is on stable storage. The response has no content.',
      },
      furtherResponses: [
        {
          status: 408,
          schema: Type.Unsafe({ $ref: '#/components/schemas/Refusal' }),
          description: 'INVALID_REQUEST: the bytes did not arrive in time. Nothing was stored.',
        },
      ],
      refusals: ['UPLOAD_URL_INVALID', 'ACCOUNT_SUSPENDED', 'UPLOAD_MISMATCH'],
      load: { acceptsMail: true },
      handle: async (request) => {
        const length = request.headers['content-length'];
        const isChunked = request.headers['transfer-encoding'] !== undefined;
        const result = await upload({
          url: request.url,
          headerValues: (name) => request.headerValues(name),
          announcedBytes: isChunked ? undefined : Number(length ?? 0),
          body: () => request.stream,
        });
        return result.ok ? { ok: true, contentType: 'text/plain; charset=utf-8', content: '' } : result;
      },
    }),
  ];
}

/** In the order of the checks: key, manifest, key in progress, key used for another request, size, limits. */
async function register(
  options: AttachmentRouteOptions,
  request: RouteRequest<Caller, unknown, unknown>,
): Promise<RouteAnswer> {
  const { account, mode } = request.caller;
  const read = readKey(request.headerValues('idempotency-key'));
  const issues = read.ok ? request.inputIssues : [...request.inputIssues, ...read.failure.details];
  const manifest = readManifest(request.json(), issues);
  if (!manifest.ok) return manifest;
  if (!read.ok) return read;
  const run = async (): Promise<RouteAnswer> => {
    const registered = await registerManifest(options, {
      accountId: account.id,
      mode,
      limits: { approvedEmailBytes: account.approvedEmailBytes, maximumEmailBytes: MAXIMUM_EMAIL_BYTES },
      idempotencyKey: read.value,
      backPressure: request.backPressure,
      items: manifest.value,
    });
    if (!registered.ok) return registered;
    const { body, isRepeat } = registered.value;
    return isRepeat ? { ok: true, body, headers: REPEATED } : { ok: true, body };
  };
  if (read.value === undefined) return run();
  const key = { accountId: account.id, mode, endpoint: ENDPOINT, key: read.value };
  if (!options.inFlight.take(key)) return refuse(failure('DUPLICATE_REQUEST_IN_PROGRESS', { retryAfterSeconds: 1 }));
  try {
    return await run();
  } finally {
    options.inFlight.release(key);
  }
}

/** Errors in the format of the Resend API: every code has a name that its clients know. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { errorCatalog, type FailureCode, failure, invalid } from '../../base/failure.ts';
import { refusalAnswer } from '../../http/answer.ts';
import { shape } from './errors.ts';
import { strictFailure } from './send.ts';

/** The error names in the type definitions of the official SDK. */
const KNOWN = new Set(
  `invalid_idempotency_key validation_error missing_api_key restricted_api_key invalid_api_key not_found method_not_allowed
   invalid_idempotent_request concurrent_idempotent_requests invalid_attachment invalid_from_address invalid_access
   invalid_parameter invalid_region missing_required_field monthly_quota_exceeded daily_quota_exceeded rate_limit_exceeded
   security_error application_error internal_server_error`.split(/\s+/),
);

const request = {
  routeName: 'POST /resend/emails',
  method: 'POST',
  url: '/resend/emails',
  requestId: 'req_1',
  headers: { authorization: 'Bearer x' },
};

function shaped(refusal: Parameters<typeof refusalAnswer>[0]['failure'], change: object = {}) {
  const answer = shape(refusalAnswer({ failure: refusal }, 'req_1'), { ...request, ...change });
  const body = JSON.parse(String(answer.content)) as { statusCode: number; name: string; message: string };
  assert.deepEqual(Object.keys(body).toSorted(), ['message', 'name', 'statusCode']);
  assert.equal(body.statusCode, answer.status);
  assert.ok(KNOWN.has(body.name), body.name);
  return body;
}

test('every error code has a Resend name', () => {
  for (const code of Object.keys(errorCatalog) as FailureCode[]) {
    const { statusCode } = shaped(failure(code));
    // A server error stays a server error, so clients retry as usual.
    assert.equal(statusCode >= 500, errorCatalog[code].status >= 500, code);
  }
});

test('issues use the field names of the Resend API', () => {
  const message = (field: string): string => shaped(invalid([{ field, message: 'is wrong' }])).message;
  assert.equal(message('sendAt'), 'The `scheduled_at` field is wrong.');
  assert.equal(message('replyTo[0]'), 'The `reply_to[0]` field is wrong.');
  assert.equal(message('attachments[2].name'), 'The `attachments[2].filename` field is wrong.');
  assert.equal(message('attachments[2].contentType'), 'The `attachments[2].content_type` field is wrong.');
  assert.equal(message('metadata.a'), 'The `tags.a` field is wrong.');
  assert.equal(message('templateId'), 'The `template.id` field is wrong.');
  assert.equal(message(''), 'The body is wrong.');
});

test('a strict batch of which a part was sent is not repeated automatically', () => {
  const clock = fakeClock(Date.UTC(2026, 1, 27, 12));
  const sent = { data: { messageId: 'msg_1' } };
  const refused = (code: FailureCode, message: string = errorCatalog[code].text) => ({
    error: { code, message, details: [] },
  });
  const failed = (...results: (typeof sent | ReturnType<typeof refused>)[]) =>
    strictFailure(
      { clock },
      results.map((result, index) => ({ index, result })),
    );
  for (const code of ['OVERLOADED', 'UNAVAILABLE', 'QUOTA_EXCEEDED', 'INTERNAL_ERROR'] as const) {
    const partial = failed(sent, refused(code, 'x'.repeat(2_000)), sent, refused(code));
    assert.equal(partial.retryAfterSeconds, undefined, code);
    const { statusCode, name, message } = shaped(partial);
    assert.deepEqual([statusCode, name], [422, 'validation_error'], code);
    assert.match(message, /^Email 1: x+ These emails of the batch were sent: 0, 2\. /);
  }
  assert.equal(failed(refused('OVERLOADED'), refused('OVERLOADED')).retryAfterSeconds, 1);
  assert.equal(shaped(failed(refused('UNAVAILABLE'))).statusCode, 503);
  assert.equal(failed(refused('QUOTA_EXCEEDED', 'limits.messagesPerMonth')).retryAfterSeconds, 129_600);
  const unknown = failed(refused('OVERLOADED'), refused('INTERNAL_ERROR'));
  assert.equal(shaped(unknown).statusCode, 500, 'the second email may have been accepted');
});

test('a successful response is unchanged', () => {
  const answer = { status: 200, contentType: 'application/json', content: '{}' };
  assert.equal(shape(answer, request), answer);
});

test('an outage is reported even on unknown paths', () => {
  const path = { routeName: 'unknown', url: '/resend/contacts' };
  assert.equal(shaped(failure('OVERLOADED'), path).statusCode, 503);
  assert.equal(shaped(failure('NOT_FOUND'), path).statusCode, 404);
  assert.match(shaped(failure('NOT_FOUND'), { routeName: 'unknown', url: '/resend/x?y' }).message, /no endpoint \/x\./);
});

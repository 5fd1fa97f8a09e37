/** The routes of templates on their own database, and helpers for responses. */
import assert from 'node:assert/strict';
import { templateRoutes } from '../../src/api/templates.ts';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import { createRender, createTemplateSource } from '../../src/templates/templates.ts';
import type { Api, JsonObject } from './api.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';
import { type FeatureApp, featureApp } from './feature-app.ts';

export interface TemplateApp extends FeatureApp {
  clock: FakeClock;
  /** The account `acc_one`. */
  own: Api;
  /** Returns the response to POST /templates; fails if it is refused. */
  make(body: JsonObject, by?: Api): Promise<JsonObject>;
}

export async function templateApp(): Promise<TemplateApp> {
  const clock = fakeClock();
  const app = await featureApp(({ database }) =>
    templateRoutes({
      database,
      clock,
      templates: createTemplateSource({ database, clock }),
      render: createRender(htmlToText),
      previewUnsubscribeUrl: () => 'https://mail.test/unsubscribe/preview',
    }),
  );
  const own = app.api('acc_one');
  const make = async (body: JsonObject, by = own): Promise<JsonObject> => {
    const answer = await by.post('/templates', body);
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  };
  return { ...app, clock, own, make };
}

export interface RefusalError {
  message: string;
  details: { field: string; message: string; line?: number; column?: number }[];
}

/** Returns the error of a response that must be refused with this status and code. */
export async function refused(
  answer: Promise<{ status: number; body: JsonObject }>,
  status: number,
  code: string,
): Promise<RefusalError> {
  const { status: given, body } = await answer;
  assert.equal(given, status, JSON.stringify(body));
  assert.equal(body.error.code, code);
  assert.equal(body.reasonCode, code);
  return body.error;
}

export const fields = (error: { details: { field: string }[] }): string[] => error.details.map((issue) => issue.field);

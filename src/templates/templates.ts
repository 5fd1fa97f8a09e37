/**
 * Templates: the Liquid language in subject, html and text, with our rules on escaping, missing values and limits; and
 * templates that are stored under a name, in versions.
 */
export { accountVariables } from './account-variables.ts';
export { settleDeclared } from './declared.ts';
export { judgeSources } from './judge.ts';
export { UNSUBSCRIBE_VARIABLE } from './output.ts';
export { namesLink } from './parse.ts';
export { createRender, missingFailure, type ParsedParts, type Rendered, type ToRender } from './render.ts';
export { createTemplateSource, type TemplateSource, type UsableTemplate } from './source.ts';
export { threadTimeMs } from './time-limit.ts';

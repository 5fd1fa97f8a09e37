/** Creates or edits a route: which addresses it matches, where it forwards mail, and the size limit. */
import { Checkbox, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Answer, type Body, useChange } from '../../api.ts';
import { differing } from '../../parts/edits.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { issuesOf } from '../../parts/issues.ts';
import { done } from '../../parts/undo.tsx';
import { routeForm as texts } from '../../texts/inbound.ts';

export type InboundRoute = Answer<'getInboundRoute'>;
type Fields = Body<'createInboundRoute'>;
type Written = Answer<'createInboundRoute'>;

interface RouteFormProps {
  /** The route to edit; creates one if absent. */
  route?: InboundRoute;
  onClose(): void;
  /** Called with the secret if a webhook was created for the route. */
  onWritten(written: Written): void;
}

const FIELDS = ['match', 'url', 'events', 'maxBytes'];
const MB = 1_000_000;
const [SMALLEST, LARGEST] = [1_000, 25 * MB];

const fieldsOf = ({ match, url, events, maxBytes }: InboundRoute): Required<Fields> => ({
  match,
  url,
  events,
  maxBytes,
});

function useSave({ route, onClose, onWritten }: RouteFormProps) {
  // The user has changed what differs from the route as the form first showed it.
  const [shown] = useState(() => route && fieldsOf(route));
  const create = useChange('createInboundRoute', ['listInboundRoutes', 'listWebhooks']);
  const read = useChange('getInboundRoute');
  const replace = useChange('replaceInboundRoute', ['listInboundRoutes', 'getInboundRoute', 'listWebhooks']);
  const save = (fields: Fields): void => {
    const onSuccess = (written: Written): void => {
      onClose();
      if (route !== undefined) done(texts.saved);
      onWritten(written);
    };
    if (route === undefined || shown === undefined) {
      create.mutate({ body: fields }, { onSuccess });
      return;
    }
    // A route is replaced as a whole, so the fields that the user has not changed keep what another user has stored.
    const path = { id: route.inboundRouteId };
    const merge = (stored: InboundRoute): void =>
      replace.mutate({ path, body: { ...fieldsOf(stored), ...differing<Fields>(shown, fields) } }, { onSuccess });
    read.mutate({ path }, { onSuccess: merge });
  };
  return {
    save,
    isSaving: create.isPending || read.isPending || replace.isPending,
    issues: issuesOf(create.error ?? read.error ?? replace.error, FIELDS),
  };
}

export function RouteForm(props: RouteFormProps) {
  const { route, onClose } = props;
  const [match, setMatch] = useState(route?.match ?? '');
  const [url, setUrl] = useState(route?.url ?? '');
  // Until the user decides, the default of the service: other webhooks get the mail if the route has no URL.
  const [chosenEvents, setEvents] = useState(route?.events);
  const [megabytes, setMegabytes] = useState(String((route?.maxBytes ?? LARGEST) / MB));
  const { save, isSaving, issues } = useSave(props);
  const events = chosenEvents ?? url.trim() === '';
  const maxBytes = Math.round(Number(megabytes.replace(',', '.')) * MB);
  const isSizeGood = maxBytes >= SMALLEST && maxBytes <= LARGEST;
  return (
    <FormModal
      title={route === undefined ? texts.createTitle : texts.editTitle}
      size="lg"
      submit={route === undefined ? texts.create : texts.save}
      isBusy={isSaving}
      isDisabled={!isSizeGood}
      error={issues.general}
      onSubmit={() => save({ match: match.trim(), url: url.trim() || null, events, maxBytes })}
      onClose={onClose}
    >
      <TextInput
        label={texts.match}
        description={texts.matchHint}
        error={issues.of('match')}
        required={true}
        maxLength={320}
        placeholder={'support@in.shop.example'}
        spellCheck={false}
        data-autofocus
        value={match}
        onChange={({ currentTarget }) => setMatch(currentTarget.value)}
      />
      <TextInput
        label={texts.url}
        description={texts.urlHint}
        error={issues.of('url')}
        type={'url'}
        maxLength={2_048}
        placeholder={'https://shop.example/hooks/inbound'}
        value={url}
        onChange={({ currentTarget }) => setUrl(currentTarget.value)}
      />
      <Checkbox
        label={texts.events}
        error={issues.of('events')}
        checked={events}
        onChange={({ currentTarget }) => setEvents(currentTarget.checked)}
      />
      <TextInput
        label={texts.size}
        description={texts.sizeHint}
        inputMode={'decimal'}
        w={'14rem'}
        error={isSizeGood ? issues.of('maxBytes') : texts.sizeBad}
        value={megabytes}
        onChange={({ currentTarget }) => setMegabytes(currentTarget.value)}
      />
    </FormModal>
  );
}

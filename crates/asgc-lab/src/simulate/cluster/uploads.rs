//! A payload's way to the server: announced, sent, refused half-way.

use super::{Cluster, Happening, session};
use crate::simulate::network::{Cargo, Place, Way};
use asgc_core::ids::PushId;
use asgc_core::push::Push;
use asgc_core::server::{Input, Pushed};

impl Cluster<'_> {
    pub(super) fn announce(&self, place: Place, push: &Push, received_bytes: u64) -> Happening {
        Happening::Arrive(Input::Announce {
            session: session(place),
            header: Box::new(push.header.clone()),
            asks: push.asks_first,
            received_bytes,
        })
    }

    /// Sends the header of a payload that is sent only when the server wants it.
    pub(super) fn ask_first(&mut self, place: Place) {
        if let Some(upload) = &self.trainers[place].upload {
            let asks = self.announce(place, &upload.push, 0);
            self.network.send((place, Way::Up), asks, &mut self.agenda);
        }
    }

    /// Sends a payload: the first chunk announces the rest, unless that was asked for already.
    pub(super) fn upload(&mut self, place: Place, push: PushId) {
        let Some(upload) = self.trainers[place].uploading(push) else {
            return;
        };
        let (bytes, chunk) = (
            upload.push.header.payload_bytes,
            self.config.server.chunk_bytes as u64,
        );
        if upload.push.asks_first || bytes <= chunk {
            return self.last_bytes(place, bytes);
        }
        let cargo = Cargo {
            bytes: chunk,
            sent: Some(Happening::Rest(place, push)),
            arrived: self.announce(place, &upload.push, chunk),
        };
        self.send_up(place, cargo);
    }

    pub(super) fn rest(&mut self, place: Place, push: PushId) {
        let whole = self.trainers[place]
            .uploading(push)
            .map(|upload| upload.push.header.payload_bytes);
        // A verdict may have ended it just now.
        if let Some(bytes) = whole {
            self.last_bytes(place, bytes - self.config.server.chunk_bytes as u64);
        }
    }

    /// The end of a payload: with it the push is whole.
    fn last_bytes(&mut self, place: Place, bytes: u64) {
        let Some(upload) = &self.trainers[place].upload else {
            return;
        };
        let Push { header, payload, .. } = Push::clone(&upload.push);
        let sent = Happening::Uploaded(place, header.push);
        let pushed = Pushed {
            header,
            // The worker sends no values that are not finite; whatever else is wrong with them is refused as such.
            payload: payload.check(&self.layout).ok(),
            decode_s: self.config.simulation.server_s,
        };
        let arrived = Happening::Arrive(Input::Push {
            session: session(place),
            pushed: Box::new(pushed),
        });
        let cargo = Cargo {
            bytes,
            sent: Some(sent),
            arrived,
        };
        self.send_up(place, cargo);
    }

    fn send_up(&mut self, place: Place, cargo: Cargo<Happening>) {
        self.frames.uplink += cargo.bytes;
        let transfer = self.network.carry((place, Way::Up), cargo, &mut self.agenda);
        if let Some(upload) = &mut self.trainers[place].upload {
            upload.transfer = Some(transfer);
        }
    }

    pub(super) fn uploaded(&mut self, place: Place, push: PushId) {
        let now = self.agenda.now();
        // A verdict may have ended it just now, and then something else is under way.
        if self.trainers[place].uploading(push).is_some() {
            self.trainers[place].uploaded(now);
            self.go_on(place);
        }
    }

    /// The server does not want the rest of a payload.
    pub(super) fn abort(&mut self, place: Place) {
        let upload = self.trainers[place].upload.take();
        if let Some(transfer) = upload.and_then(|upload| upload.transfer) {
            self.network.cancel(transfer, &mut self.agenda);
        }
        self.go_on(place);
    }

    /// Nothing is being sent any more. By turns it is now that parameters are wanted; with a pipeline they were already.
    fn go_on(&mut self, place: Place) {
        if self.trainers[place].pipeline.is_deep() {
            self.send(place);
        } else {
            self.pull(place);
        }
    }
}

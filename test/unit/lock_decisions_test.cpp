#include "core/lock_decisions.hpp"

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

using namespace std::chrono_literals;

class LockDecisions : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds now = 1'000'000ms;

  [[nodiscard]] static std::optional<StoredLease> lease(const LockId& id,
                                                        std::chrono::milliseconds expires_at) {
    return StoredLease{.id = id, .expires_at = expires_at};
  }
  [[nodiscard]] AcquireDecision acquire(const std::optional<StoredLease>& at_key,
                                        const std::optional<StoredLease>& of_id = std::nullopt) const {
    return decide_acquire({.id = ours, .key = key, .ttl = ttl}, at_key, of_id, now);
  }
  [[nodiscard]] ReleaseRequest release_request() const {
    return {.lock = {.id = ours, .key = key}, .proof = {}, .broken_because = {}};
  }
  [[nodiscard]] ReleaseDecision release(const std::optional<StoredLease>& there) const {
    return decide_release(release_request(), there, now);
  }
  [[nodiscard]] ExtendDecision extend(const std::optional<StoredLease>& there) const {
    return decide_extend({.lock = {.id = ours, .key = key}, .ttl = ttl}, there, now);
  }
  /// Release and extend find the same.
  void expect_not_held(const std::optional<StoredLease>& there, Absence why, bool delete_lease) const {
    const auto of_release = release(there);
    const auto of_extend = extend(there);
    ASSERT_TRUE(std::holds_alternative<NotHeld>(of_release));
    ASSERT_TRUE(std::holds_alternative<NotHeld>(of_extend));
    for (const auto& refused : {std::get<NotHeld>(of_release), std::get<NotHeld>(of_extend)}) {
      EXPECT_EQ(refused.why, why);
      EXPECT_EQ(refused.delete_lease, delete_lease);
    }
  }

  const LockKey key = *LockKey::parse("key");
  const LockId ours = LockId::generate();
  const LockId other = LockId::generate();
  const Ttl ttl = *Ttl::of(30s);
};

TEST_F(LockDecisions, AFreeKeyIsGrantedForTheWholeTtl) {
  EXPECT_EQ(std::get<Grant>(acquire(std::nullopt)).expires_at, now + 30'000ms);
}

TEST_F(LockDecisions, AKeyIsRefusedUntilTheLastMillisecondOfItsLease) {
  EXPECT_EQ(std::get<Refused>(acquire(lease(other, now + 1ms))).free_in, 1ms);
  EXPECT_EQ(std::get<Refused>(acquire(lease(other, now + 7'000ms))).free_in, 7'000ms);
}

TEST_F(LockDecisions, AKeyIsGrantedFromTheMillisecondOfItsExpiryOn) {
  EXPECT_EQ(std::get<Grant>(acquire(lease(other, now))).expires_at, now + 30'000ms);
  EXPECT_TRUE(std::holds_alternative<Grant>(acquire(lease(other, now - 1ms))));
}

TEST_F(LockDecisions, TheSameIdIsGrantedAgainWhileItsLeaseLives) {
  EXPECT_TRUE(std::holds_alternative<GrantAgain>(acquire(lease(ours, now + 1ms))));
}

TEST_F(LockDecisions, TheSameIdGetsANewGrantOnceItsLeaseHasExpired) {
  EXPECT_TRUE(std::holds_alternative<Grant>(acquire(lease(ours, now))));
}

TEST_F(LockDecisions, AnIdThatHoldsAnotherKeyIsInUseUntilThatExpires) {
  EXPECT_TRUE(std::holds_alternative<IdInUse>(acquire(std::nullopt, lease(ours, now + 1ms))));
  EXPECT_TRUE(std::holds_alternative<IdInUse>(acquire(lease(other, now), lease(ours, now + 1ms))));
  EXPECT_TRUE(std::holds_alternative<Grant>(acquire(std::nullopt, lease(ours, now))));
  EXPECT_EQ(id_holds_another_key().code(), ErrorCode::InvalidArgument);
}

TEST_F(LockDecisions, AnIndexThatLeadsToALeaseOfAnotherIdDoesNotCount) {
  EXPECT_TRUE(std::holds_alternative<Grant>(acquire(std::nullopt, lease(other, now + 1ms))));
}

TEST_F(LockDecisions, ThatTheKeyIsHeldComesBeforeThatTheIdIsInUse) {
  EXPECT_TRUE(std::holds_alternative<Refused>(acquire(lease(other, now + 1ms), lease(ours, now + 1ms))));
}

TEST_F(LockDecisions, ALiveLeaseIsReleasedAndExtendedByItsIdToTheLastMillisecond) {
  EXPECT_TRUE(std::holds_alternative<Release>(release(lease(ours, now + 1ms))));
  EXPECT_EQ(std::get<Extend>(extend(lease(ours, now + 1ms))).expires_at, now + 30'000ms);
}

TEST_F(LockDecisions, AnExtendReplacesALongerRestOfTheLease) {
  EXPECT_EQ(std::get<Extend>(extend(lease(ours, now + 90'000ms))).expires_at, now + 30'000ms);
}

TEST_F(LockDecisions, AnExpiredLeaseIsDeletedByItsIdAndNeverRevived) {
  expect_not_held(lease(ours, now), Absence::expired, true);
  expect_not_held(lease(ours, now - 1ms), Absence::expired, true);
}

TEST_F(LockDecisions, ALeaseOfAnotherIdIsLeftAlone) {
  expect_not_held(lease(other, now + 1ms), Absence::other_owner, false);
  expect_not_held(lease(other, now), Absence::not_found, false);
}

TEST_F(LockDecisions, WithoutALeaseThereIsNothingToReleaseOrExtend) {
  expect_not_held(std::nullopt, Absence::not_found, false);
}

TEST_F(LockDecisions, ALeaseIsHeldByItsIdAloneAndNotAtItsExpiry) {
  EXPECT_TRUE(is_held(lease(ours, now + 1ms), now));
  EXPECT_FALSE(is_held(lease(ours, now), now));
  EXPECT_FALSE(is_held(std::nullopt, now));
  EXPECT_TRUE(is_held_by(ours, lease(ours, now + 1ms), now));
  EXPECT_FALSE(is_held_by(ours, lease(other, now + 1ms), now));
  EXPECT_FALSE(is_held_by(ours, lease(ours, now), now));
}

class AbsentRelease : public LockDecisions {
 protected:
  [[nodiscard]] Result<ReleaseOutcome> answer(Absence found) const {
    return answer_absent_release(request, found, {.authority = "store", .counter = 7}, BootTime{1h});
  }
  ReleaseRequest request = release_request();
};

TEST_F(AbsentRelease, AFirstRequestIsAnsweredWithWhatWasFound) {
  for (const auto found : {Absence::not_found, Absence::expired, Absence::other_owner}) {
    EXPECT_EQ(std::get<Absence>(*answer(found)), found);
  }
}

TEST_F(AbsentRelease, ARepeatedRequestWasCarriedOutBeforeIfTheProofHolds) {
  request.asked_before = true;
  request.proof = HolderProof{.fence = *Fence::of(7), .authority = "store", .until = BootTime{2h}};
  EXPECT_TRUE(std::holds_alternative<Released>(*answer(Absence::not_found)));
  EXPECT_TRUE(std::holds_alternative<Released>(*answer(Absence::other_owner)));
}

TEST_F(AbsentRelease, ARepeatedRequestThatFindsItsLeaseExpiredDidNotReleaseIt) {
  request.asked_before = true;
  request.proof = HolderProof{.fence = *Fence::of(7), .authority = "store", .until = BootTime{2h}};
  EXPECT_EQ(std::get<Absence>(*answer(Absence::expired)), Absence::expired);
}

TEST_F(AbsentRelease, ARepeatedRequestFromALostHolderIsAnsweredWithWhatWasFound) {
  request.asked_before = true;
  request.proof =
      HolderProof{.fence = *Fence::of(7), .authority = "store", .until = BootTime{2h}, .lost = true};
  EXPECT_EQ(std::get<Absence>(*answer(Absence::other_owner)), Absence::other_owner);
}

TEST_F(AbsentRelease, ARepeatedRequestWithoutAProofIsUnknown) {
  request.asked_before = true;
  const auto unknown = answer(Absence::not_found);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::NetworkTimeout);
}

}  // namespace
}  // namespace holdfast::core
